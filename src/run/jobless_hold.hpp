// SPDX-License-Identifier: Apache-2.0
// A lock without a job: what becomes of the grant, and what ends the hold.
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

// The end of standard input, which a user types or a pipe brings.
class StdinEnd {
 public:
  // Readable: ask has_come().
  pollfd watched() const noexcept { return {paused_ ? pause_.fd() : STDIN_FILENO, POLLIN, 0}; }
  bool has_come();

 private:
  bool paused_ = false;  // another process group has the terminal, and does not read what is typed
  Timer pause_;
};

struct JoblessHold {
  std::function<bool(const std::vector<Lease>&)> pass_on;  // the grant; false: give it back
  std::optional<StdinEnd> stdin_end{};                     // --hold
  int watch = -1;     // a pidfd; readable: the process has ended
  int listener = -1;  // of keeper_socket
  // readable before the grant: the process that waits for it has ended
  int caller_link = -1;
  std::optional<KeeperRequest> release_request{};  // by the listener; answered by released()

  // Those that may ask for the end: of a wait, or with `owner`, of a grant.
  std::array<pollfd, 4> descriptors(const std::optional<Owner>& owner) const;
  // At once: how dlock is asked to end.
  std::optional<Outcome> end_requested(const std::optional<Owner>& owner);
  void released(const event::ReleaseDone&) const;
};

}  // namespace dlock::run
