// SPDX-License-Identifier: Apache-2.0
// A lock without a job (`acquire --hold`, `acquire --keep`): who gets the grant, and what ends the
// hold. The Supervisor calls all functions on the main thread. pass_on() blocks; end_requested()
// blocks for half a second at most.
#pragma once
#include <poll.h>
#include <unistd.h>
#include <array>
#include <functional>
#include <optional>
#include <vector>
#include "core/lease.hpp"
#include "job/timer.hpp"
#include "report/outcome.hpp"
#include "run/event.hpp"
#include "run/keeper_socket.hpp"

namespace dlock::run {

// Notices the end of standard input, from a terminal or a pipe.
class StdinEnd {
 public:
  // When this descriptor is readable, call has_come().
  pollfd watched() const noexcept { return {paused_ ? pause_.fd() : STDIN_FILENO, POLLIN, 0}; }
  bool has_come();

 private:
  // true: another process group has the terminal, and has not read what was typed
  bool paused_ = false;
  Timer pause_;
};

struct JoblessHold {
  // Passes the grant on. False: the grant was not passed on, so the lock must be released.
  std::function<bool(const std::vector<Lease>&)> pass_on;
  std::optional<StdinEnd> stdin_end{};  // set with --hold
  int watch = -1;                       // a pidfd; the end of that process ends the hold; -1: none
  int listener = -1;                    // the socket of listen_as_keeper(); -1: none
  int caller_link =
      -1;  // polled during the wait: readable when the process that waits for the grant has ended
  std::optional<KeeperRequest> release_request{};  // a request that released() answers

  // Returns the descriptors to poll. Without `owner` they show a request to end the wait, and with
  // `owner` a request to end the hold.
  std::array<pollfd, 4> descriptors(const std::optional<Owner>& owner) const;
  // Reads the descriptors that are ready. If anybody asks dlock to end, it returns the outcome. It
  // waits for a slow request on the listener (next_request).
  std::optional<Outcome> end_requested(const std::optional<Owner>& owner);
  // Answers release_request, if there is one.
  void released(const event::ReleaseDone&) const;
};

}  // namespace dlock::run
