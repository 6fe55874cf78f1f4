// SPDX-License-Identifier: Apache-2.0
// The sessions of a server of MySQL's family. After a deadline nothing is repeated. But once a
// server has been reached, each reply may take op_timeout, also each reply during a login. So over
// a slow network, a request of several exchanges may end after its deadline. The thread that owns
// the Backend calls the Client.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include "mysql/client/connection.hpp"
#include "mysql_schema/schema.hpp"
#include "sql/sql_client.hpp"
#include "store/backend.hpp"

namespace dlock::mysql {

// The rows of a key in a recipe: the rows of `table` whose `column` is the key's name.
struct Rows {
  std::string table, column;
  std::string also{};  // a further condition, which begins with AND
  bool text = false;   // the column is compared as text, not as bytes
};

// If the URL has several hosts that are not nodes of one Galera cluster, a call that connects fails
// with Errc::usage.
class Client final : public SqlClientOf<Options, Connection> {
 public:
  explicit Client(Options options, std::string_view schema = schema::lease)
      : SqlClientOf(std::move(options), schema) {}

  Result<std::unique_ptr<SqlSession>> writable_session(Deadline until) override;
  void give_back(std::unique_ptr<SqlSession>) override;
  // Ends the wait through another session. Always returns 0.
  int end_wait(SqlSession*) override;
  // Deletes the rows. The table stays, because other clients may be about to use it.
  Result<void> erase(const Rows&, const std::string& name);
  Result<std::vector<Finding>> examine(const Traits&) override;

 private:
  Result<std::unique_ptr<SqlSession>> open(const Duration* share) override;
  Result<void> prepare_session(SqlSession&, bool any, Deadline until) override;
  Result<void> same_cluster(const Connection&);
  Result<void> create(SqlSession&, Deadline until) override;
  bool may_repeat(SqlSession&, const Error&, Deadline until, unsigned failures) override;

  // Set only if the URL has several hosts. cluster_: the UUID of their cluster. cluster_at_: the
  // host that reported this UUID first.
  std::string cluster_, cluster_at_;
  bool cluster_known_ = false;  // prepare_session() has made its one check of the other hosts
};

}  // namespace dlock::mysql
