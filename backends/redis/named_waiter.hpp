// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/named_recipe.hpp"

namespace dlock::redis {

// Asks again and again: when the lock should end by itself, and meanwhile every 0.1 s, later every 0.5 s.
class NamedWaiter final : public Waiter {
 public:
  NamedWaiter(NamedBackend& backend, const Request& request) : backend_(backend), request_(request) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  NamedBackend& backend_;
  const Request request_;
  Deadline next_{};
  unsigned asked_ = 0;
  Waiting last_;
};

}  // namespace dlock::redis
