// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "store/backend.hpp"

namespace dlock {

// Polls a lock whose release wakes no waiter. It polls every 0.1 s, and every 0.5 s after 20 tries.
// If the lock will end by itself, it also polls at that time. The intervals are random, so that
// waiters do not poll at the same moment.
class PollingWaiter : public Waiter {
 public:
  PollingWaiter(const Request& request, int interrupt_fd)
      : request_(request), interrupt_(interrupt_fd) {}
  Result<Progress> poll(Duration slice) final;

 protected:
  struct Tried {
    std::optional<Lease> lease;        // set if the lock was taken
    std::optional<HolderView> holder;  // set if the lock is held
    std::optional<Duration> free_in;   // after this time the lock may be free without any release
    std::string why{};                 // for messages: what else prevents a grant
  };
  virtual Result<Tried> try_once() = 0;

  Request request_;  // it gets a new owner after an undo (lease.hpp)

 private:
  const int interrupt_;
  Deadline next_{};
  unsigned tries_ = 0;
  Waiting last_;
};

}  // namespace dlock
