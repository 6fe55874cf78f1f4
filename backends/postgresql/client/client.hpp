// SPDX-License-Identifier: Apache-2.0
// The sessions of a PostgreSQL server.
#pragma once
#include <memory>
#include <string_view>
#include <vector>
#include "postgresql/client/connection.hpp"
#include "postgresql_schema/schema.hpp"
#include "sql/sql_client.hpp"
#include "store/backend.hpp"

namespace dlock::postgresql {

// A statement that waits for an advisory lock: `take` is the call of the function, `longest` the time
// after which it waits no more. It fails neither then nor when end_waits_in_sql() ends the wait,
// because the server would log each error, with the statement; what PL/pgSQL catches it does not
// log. `waited_statement` behind it says what became of the wait.
Statement wait_statement(std::string_view take, Duration longest);
// The server's clock before the wait; NULL: it has not got the lock.
extern const Statement waited_statement;
// An SQL query that ends the waits of the session with that number, if it waits for an advisory
// lock: it is then free for other statements. A session of the same number that came later would
// only wait once more.
std::string end_waits_in_sql(std::string_view pid);

// connection(): Errc::unavailable if no server of the URL writes.
class Client final : public SqlClient<Options, Connection> {
 public:
  explicit Client(Options options, std::string_view schema = schema::lease)
      : SqlClient(std::move(options), schema) {}

  Result<std::unique_ptr<Connection>> writer(Deadline until) { return connection(until); }
  void give_back(std::unique_ptr<Connection>) override;
  // The number of a session that waits in the server, for another one to end its wait; 0: it does
  // not.
  static int end_wait(const std::unique_ptr<Connection>& c) {
    return c && c->under_way() && !c->broken() ? c->facts().pid : 0;
  }
  // Drops a session whose wait another one ends, as soon as it is over.
  void drop_waiting(std::unique_ptr<Connection>, Deadline until) override;
  // Ends the wait of that session over another one.
  Result<void> ask_to_end(int pid, Deadline until);
  // Is this server fit for locks? What it says of itself, on a session of its own.
  Result<std::vector<Finding>> examine(const Traits&);

 private:
  Result<std::unique_ptr<Connection>> open(const Duration* share) override;
  Result<void> fit(Connection&, bool any, Deadline until) override;
  bool may_repeat(const Connection&, const Error&, Deadline until, unsigned failures) override;
  Result<void> create(Connection&, Deadline until) override;
  // `only_try`: all of it, and then nothing is kept.
  Result<Rows> make_tables(Connection&, bool only_try, Deadline until);
};

}  // namespace dlock::postgresql
