// SPDX-License-Identifier: Apache-2.0
// The sessions of a PostgreSQL server.
#pragma once
#include <memory>
#include <string_view>
#include <vector>
#include "common/sql_client.hpp"
#include "core/backend.hpp"
#include "postgresql/client/connection.hpp"
#include "postgresql_schema/schema.hpp"

namespace dlock::postgresql {

// connection(): Errc::unavailable if no server of the URL writes.
class Client final : public SqlClient<Options, Connection> {
 public:
  explicit Client(Options options, std::string_view schema = schema::lease)
      : SqlClient(std::move(options), schema) {}

  Result<std::unique_ptr<Connection>> writer(Deadline until) { return connection(until); }
  void give_back(std::unique_ptr<Connection>) override;
  // The number of a session that waits in the server, for another one to end it; 0: it does not.
  static int end_wait(const std::unique_ptr<Connection>& c) {
    return c && c->under_way() && !c->broken() ? c->facts().pid : 0;
  }
  // Is this server fit for locks? What it says of itself, on a session of its own.
  Result<std::vector<Finding>> examine(const Traits&);

 private:
  Result<std::unique_ptr<Connection>> open(const Duration* share) override;
  Result<void> fit(Connection&, bool any, Deadline until) override;
  bool may_repeat(const Connection&, const Error&, Deadline until, unsigned failures) override;
  Result<void> create(Connection&, Deadline until) override;
};

}  // namespace dlock::postgresql
