// SPDX-License-Identifier: Apache-2.0
// Recipe lease. How it works, and its assumptions: lease_table.hpp and README.md.
#pragma once
#include "common/sql_lease_backend.hpp"
#include "mysql/client/client.hpp"
#include "mysql/lease/lease_table.hpp"

namespace dlock::mysql {

class LeaseBackend final : public SqlLeaseBackend<Client, Connection, LeaseTable> {
 public:
  LeaseBackend(const Traits& traits, Options options)
      : SqlLeaseBackend(traits, std::move(options)) {}

  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_.statements(), wakeups_}; }

 private:
  void adapt(const Connection&) override;
  int end_wait(std::unique_ptr<Connection>&) override;
};

}  // namespace dlock::mysql
