// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>
#include "redlock/redlock_backend.hpp"

namespace dlock::redlock {

// Tries, and between two tries sleeps on a list of each master (BLPOP, on separate connections),
// where a release wakes one waiter. Other programs wake none: because of them, and of a waiter that
// was woken and died, it also tries after a while.
class RedlockWaiter final : public Waiter {
 public:
  RedlockWaiter(RedlockBackend& backend, const Request& request)
      : backend_(backend),
        request_(request),
        owner_(request.owner),
        names_(backend.names(request.key)) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<std::optional<Progress>> try_once(Deadline end);
  void sleep(Deadline until);
  Duration pause(const Attempt&);

  RedlockBackend& backend_;
  const Request request_;
  Owner owner_;  // of the next attempt
  const Names names_;
  std::unique_ptr<Masters> ears_;
  std::vector<bool> listening_, woken_;
  std::optional<Owner> granted_;
  Deadline next_{};
  unsigned tries_ = 0, unanswered_ = 0;
  unsigned silent_ = 0;  // since the last try whose outcome was known
  Error silence_{Errc::timed_out, ""};
  Waiting last_;
};

}  // namespace dlock::redlock
