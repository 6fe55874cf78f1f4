// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include "mysql/lease/lease_backend.hpp"

namespace dlock::mysql {

// A place in the queue of a key, with its own session. It waits in the server for the named lock of
// a waiter ahead; the wait goes on between two polls. Without named locks it polls.
//
// Interleavings that determine the order of statements:
//  1. The holder loses its connection: the head gets its name at once, sees a live lease, naps, and
//  asks again.
//  2. A waiter loses its connection: its row stays, and is passed while its name is free. Back in
//  time it keeps its place.
//  3. Granted, dead before the DELETE: the row stays, its name is free, so it is passed, and swept
//  by the next grant.
//  4. A release and the next one's GET_LOCK cross: named locks are levels, not edges.
//  5. The head is stopped: those behind pass it (LeaseTable::pass_the_frozen).
//  6. An UPDATE or INSERT without answer: a new session reads; our owner among the holders is our
//  grant.
//  7. Stopped between READ and UPDATE: the version has moved, or our lease is old already, which
//  its deadline says.
class LeaseWaiter final : public Waiter {
 public:
  LeaseWaiter(LeaseBackend& backend, const Request& request)
      : backend_(backend), request_(request) {}
  ~LeaseWaiter() override { backend_.client_.drop(std::move(connection_)); }

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<void> connect();
  Result<std::optional<Progress>> ask();
  Result<std::optional<Progress>> ask_over(Deadline until);
  Result<void> listen();
  Result<bool> hear(Deadline end);  // false: not yet
  Progress waiting();
  Progress granted(LeaseTable::Answered&);
  void plan(const LeaseTable::Answered&);

  LeaseBackend& backend_;
  const Request request_;
  std::unique_ptr<Connection> connection_;
  LeaseTable::Asking asking_;
  Waiting last_;
  bool asked_ = false, told_ = false;  // told_: last_.ahead is right
  LeaseTable::Target target_;
  Duration wait_{};                        // for the target, at most
  Deadline ask_at_{};                      // none to wait for: when to poll again
  Deadline speak_at_{};                    // without named locks: when to show that we live
  Duration idle_{};                        // between two questions
  std::uint64_t version_ = 0;              // seen last
  Deadline listened_{};                    // when the wait for the target began
  std::optional<Owner> gone_;              // the holder whose name was free
  std::optional<Deadline> unclear_since_;  // the read before the first swap without an answer
  unsigned breaks_ = 0;
};

}  // namespace dlock::mysql
