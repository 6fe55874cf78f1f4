// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <string>
#include "mysql/foreign/held_backend.hpp"

namespace dlock::mysql {

class HeldWaiter final : public Waiter {
 public:
  HeldWaiter(HeldBackend& backend, const Request& request) : backend_(backend), request_(request) {}
  ~HeldWaiter() override { backend_.client_.drop(std::move(connection_)); }
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<void> connect();
  Result<Progress> granted(FencingToken, Deadline sent);
  Progress waiting();
  std::optional<HolderView> holder(std::string& why);
  Result<Progress> failed(Error);

  HeldBackend& backend_;
  Request request_;  // with another owner after each undo
  std::string name_;
  std::unique_ptr<Connection> connection_;
  Deadline answer_by_{};
  Waiting last_;
  bool looked_ = false;
};

}  // namespace dlock::mysql
