// SPDX-License-Identifier: Apache-2.0
// Recipe lease. How it works, and its assumptions: lease_table.hpp and README.md.
#pragma once
#include "common/sql_lease_backend.hpp"
#include "postgresql/client/client.hpp"
#include "postgresql/lease/lease_table.hpp"

namespace dlock::postgresql {

class LeaseBackend final : public SqlLeaseBackend<Client, Connection, LeaseTable> {
 public:
  LeaseBackend(const Traits& traits, Options options)
      : SqlLeaseBackend(traits, std::move(options)) {}

  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_.exchanges(), wakeups_}; }

 private:
  void adapt(const Connection& c) override { table_.set_wakes(!c.facts().proxied); }
  int end_wait(std::unique_ptr<Connection>&) override;
};

}  // namespace dlock::postgresql
