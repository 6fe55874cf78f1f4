// SPDX-License-Identifier: Apache-2.0
// One session of a server. libpq never blocks here: poll(2) waits for its descriptor. So every wait
// has a deadline and can be interrupted, and a wait in the server (for an advisory lock) goes on
// while the caller does something else. Only the thread that owns the Backend calls these
// functions.
//
// Several statements are sent together, and their replies come together: this is one exchange. Each
// statement is a transaction of its own. The server carries them out in order, whatever the earlier
// statements returned.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "common/exchange.hpp"
#include "common/lookup.hpp"
#include "core/lock_state.hpp"
#include "core/number.hpp"
#include "postgresql/client/options.hpp"
#include "postgresql/client/server_error.hpp"
#include "sql/sql_session.hpp"

struct pg_conn;
struct pg_result;

namespace dlock::postgresql {

// A statement with its values. Behind a pooler the statement is always sent as text.
struct Call {
  const SqlStatement& statement;
  std::vector<std::string> values{};  // $1, $2, ...
};

// The server's time in microseconds since 1970. It is fixed when the server receives the statement.
// So the statement may find a lease expired too late, but never too early.
inline constexpr std::string_view server_clock =
    "(date_part('epoch',statement_timestamp())*1e6)::bigint";

struct Facts {
  std::string version;
  bool read_only = false;
  // a pooler is in between, so the next statement may run in another session
  bool proxied = false;
  int pid = 0;
  Micros clock = 0;  // the server's clock at clock_at
  Deadline clock_at{};
};

class Connection final : public SqlSession {
 public:
  static Result<std::unique_ptr<Connection>> open(const Options&, const Server&, Duration timeout);
  ~Connection() override;

  // Sends the statements, and waits for their replies until `until`, but for at least op_timeout.
  // Errc::timed_out: the outcome is unknown. Then the session is broken, as after every error
  // except a missing table.
  Result<SqlAnswers> exchange(std::string_view what, std::span<const Call>, Deadline until);
  Result<SqlRows> query(std::string_view what, const Call&, Deadline until);
  // Sends statements; receive() takes their replies.
  Result<void> send(std::string_view what, std::span<const Call>, Deadline until);

  Result<SqlRows> ask(std::string_view what, const SqlStatement&, const SqlValues&,
                      Deadline until) override;
  Result<std::optional<SqlAnswers>> receive(const Wait&) override;
  bool under_way() const noexcept override { return !sent_.empty(); }
  void abandon() noexcept override;
  int fd() const noexcept override;
  bool has_server_error() const noexcept override { return !sqlstate_.empty(); }
  Remedy remedy() const noexcept override { return classify(sqlstate_).remedy; }
  bool outlives_errors() const noexcept override { return false; }

  // Returns the SQLSTATE of the last failed call. Empty: the server reported no error.
  const std::string& sqlstate() const noexcept { return sqlstate_; }

  const Facts& facts() const noexcept { return facts_; }
  // Estimates the server's clock at that time. The estimate is too low by the transit time of the
  // server's reply to the login.
  Micros server_time(Deadline) const noexcept;
  // Returns how long a statement waits for a row that another session changes.
  Duration row_wait() const noexcept { return row_wait_; }

  // The advisory locks of this session (lease_table.hpp). `locks`: the ticket of its place in a
  // queue or of its grant. `wake_lock`: its wake lock; 0: it has none.
  std::set<std::uint64_t> locks;
  std::uint64_t wake_lock = 0;

 private:
  explicit Connection(Server at) : SqlSession(at.text()), at_(std::move(at)) {}
  Result<void> connect(const Options&, const Address*, Deadline until);
  Result<void> set_up(const Options&, Deadline until);
  Result<void> flush(Deadline until);
  Error lost(std::string_view what);
  Error silent();
  void read_result(const pg_result*);

  const Server at_;
  pg_conn* handle_ = nullptr;
  Facts facts_;
  std::string what_, sqlstate_, why_;
  Duration row_wait_{}, least_time_{};
  std::set<std::string> prepared_;
  // For each call that is under way, the name that it prepared; empty: it prepared nothing.
  std::vector<std::string> sent_;
  SqlAnswers answers_;
  std::size_t done_ = 0;  // how many calls of `sent_` are done
};

// Every session that a Client or a LeaseTable of PostgreSQL gets is a Connection.
inline Connection& as_connection(SqlSession& s) noexcept { return static_cast<Connection&>(s); }
inline const Connection& as_connection(const SqlSession& s) noexcept {
  return static_cast<const Connection&>(s);
}

}  // namespace dlock::postgresql
