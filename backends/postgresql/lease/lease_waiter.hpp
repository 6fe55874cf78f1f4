// SPDX-License-Identifier: Apache-2.0
// A place in the queue of one key. Its session has its ticket (lease_table.hpp), and becomes that
// of the grant.
//
// A grant without an answer was carried out or not, or will be late: it names the version that it
// was decided on. If it was, the next reading finds our owner, and the lease is what is left of it
// then. A late one hits nothing, or the very state that it was decided on: then it is a lease whose
// deadline was fixed by that reading; our next request, or the end of the lease, finds it.
#pragma once
#include "postgresql/lease/lease_backend.hpp"

namespace dlock::postgresql {

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
  bool tried_ = false;                 // something was sent
  LeaseTable::Target target_;
  Duration wait_{};                    // for the target, at most
  Deadline ask_at_{};                  // none to wait for: when to poll again
  Deadline speak_at_{};                // without tickets: when to show that we live
  Duration idle_{};                    // between two questions
  std::uint64_t version_ = 0;          // seen last
  Deadline listened_{};                // when the wait for the target began
  std::optional<std::uint64_t> gone_;  // the ticket that was free
  unsigned breaks_ = 0;
};

}  // namespace dlock::postgresql
