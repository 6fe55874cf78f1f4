// SPDX-License-Identifier: Apache-2.0
// The sessions of a PostgreSQL server. Only the thread that owns the Backend calls these functions.
#pragma once
#include <memory>
#include <string_view>
#include <vector>
#include "postgresql/client/connection.hpp"
#include "postgresql_schema/schema.hpp"
#include "sql/sql_client.hpp"
#include "store/backend.hpp"

namespace dlock::postgresql {

// Returns a statement that waits for an advisory lock. `take`: the call of the SQL function that
// takes the lock. `longest`: the longest time that the statement waits. When that time is over, or
// when end_waits_in_sql() ends the wait, the statement catches the error in PL/pgSQL and does not
// fail. Otherwise the server would log each such error, with the statement. `waited_statement`,
// sent after this statement, returns the result of the wait.
SqlStatement wait_statement(std::string_view take, Duration longest);
// Returns the server's clock before the wait. NULL: the session did not get the lock.
extern const SqlStatement waited_statement;
// Returns an SQL query that ends the wait of the session with that number, if that session waits
// for an advisory lock. Afterwards the session is free for other statements. If a later session has
// the same number, the query only makes that session wait once more.
std::string end_waits_in_sql(std::string_view pid);

// The inherited connection() returns Errc::unavailable if no server of the URL accepts writes,
// unless `any` is true.
class Client final : public SqlClientOf<Options, Connection> {
 public:
  explicit Client(Options options, std::string_view schema = schema::lease)
      : SqlClientOf(std::move(options), schema) {}

  void give_back(std::unique_ptr<SqlSession>) override;
  // Does not end the wait. Returns the number of the session, or 0 if it does not wait.
  int end_wait(SqlSession*) override;
  void drop_waiting(std::unique_ptr<SqlSession>, Deadline until) override;
  // Ends the wait of the session with that number, through another session.
  Result<void> ask_to_end(int pid, Deadline until);
  Result<std::vector<Finding>> examine(const Traits&) override;

 private:
  Result<std::unique_ptr<SqlSession>> open(const Duration* share) override;
  Result<void> prepare_session(SqlSession&, bool any, Deadline until) override;
  bool may_repeat(SqlSession&, const Error&, Deadline until, unsigned failures) override;
  Result<void> create(SqlSession&, Deadline until) override;
  // `only_try`: creates all tables and undoes that.
  Result<SqlRows> make_tables(Connection&, bool only_try, Deadline until);
};

}  // namespace dlock::postgresql
