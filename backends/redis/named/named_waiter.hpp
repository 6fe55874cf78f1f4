// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "common/polling_waiter.hpp"
#include "redis/named/named_backend.hpp"

namespace dlock::redis {

class NamedWaiter final : public PollingWaiter {
 public:
  NamedWaiter(NamedBackend&, const Request&);
  Result<void> cancel() override;

 private:
  Result<Tried> try_once() override;

  NamedBackend& backend_;
  std::optional<Lease> owed_;  // released, without an answer
};

}  // namespace dlock::redis
