// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include "file/flock/flock_backend.hpp"

namespace dlock::file {

class FlockWaiter final : public Waiter {
 public:
  FlockWaiter(FlockBackend& backend, std::string name, const Request& request)
      : backend_(backend), name_(std::move(name)), request_(request) {}

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<std::optional<Progress>> enter();  // nullopt: the file was deleted or replaced, try again
  Result<Progress> granted();
  std::optional<HolderView> holder();

  FlockBackend& backend_;
  const std::string name_;
  const Request request_;
  FlockFile file_;
  std::optional<FlockWait> wait_;  // ends before file_
};

}  // namespace dlock::file
