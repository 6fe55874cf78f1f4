// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "common/polling_waiter.hpp"
#include "mysql/foreign/row_backend.hpp"

namespace dlock::mysql {

class RowWaiter final : public PollingWaiter {
 public:
  RowWaiter(RowBackend&, const Request&);
  Result<void> cancel() override;

 private:
  Result<Tried> try_once() override;

  RowBackend& backend_;
  bool asked_ = false;
};

}  // namespace dlock::mysql
