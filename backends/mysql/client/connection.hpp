// SPDX-License-Identifier: Apache-2.0
// One connection to a server, over the blocking client library. It sends statements, and waits for
// their replies in poll(2). So every wait has a deadline and can be interrupted, and a wait in the
// server (GET_LOCK, FOR UPDATE) goes on while its caller does something else. The thread that owns
// the Backend calls it.
#pragma once
#include <fmt/format.h>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
#include "common/exchange.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/lock_state.hpp"
#include "core/owner.hpp"
#include "mysql/client/options.hpp"
#include "mysql/client/server_error.hpp"
#include "sql/sql_session.hpp"

struct st_mysql;
struct st_mysql_stmt;

namespace dlock::mysql {

// Facts that the server reports when we connect.
struct Facts {
  unsigned long thread = 0;  // CONNECTION_ID()
  std::string server;        // identifies the server
  std::string version;
  bool mariadb = false, galera = false, read_only = false;
  // Galera: the UUID of the cluster, read only if the URL names several hosts.
  std::string cluster{};
  // The binary log is statement-based. Then InnoDB writes nothing at READ COMMITTED.
  bool statement_log = false;
  // The server's id of this connection differs from the id in the greeting, so a proxy shares
  // connections.
  bool proxied = false;
  std::int64_t wait_timeout = 0;
  std::optional<Micros> clock;  // the server's clock, in microseconds since 1970, when we connected
  Deadline clock_at{};          // when that answer came
};

// An SQL condition that each statement evaluates, because the facts of a connection are as old as
// its login. With a statement-based binary log a replica, which is read-only, would evaluate it
// again. Where that matters the condition is a variable, whose value goes with the statement.
inline constexpr std::string_view server_writes = "CAST(@@global.read_only AS CHAR) IN ('0','OFF')";

// The server's clock in microseconds since 1970. It is fixed when a statement starts, before the
// statement reads the row. So the statement may find a lease expired too late, but never too early.
inline constexpr std::string_view server_clock =
    "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

// Values in statements are digits or hex, which no character set and no quote can change.
std::string hex(std::string_view bytes);   // x'..'
std::string text_hex(std::string_view s);  // _utf8mb4 x'..', which the server compares as text

// A value of a Template. `Text`: what the server compares as text, in utf8mb4.
struct Bytes {
  std::string data;
};
struct Text {
  std::string data;
};
using Value = std::variant<std::int64_t, std::uint64_t, Bytes, Text>;
using Values = std::vector<Value>;
std::string literal(const Value&);

// A repeated statement that returns no rows, with `?` in the place of each value and nowhere else.
struct Template {
  std::string name, text;
};

class Connection final : public SqlSession {
 public:
  // Connects and verifies, then configures the session, which is an exchange like others. The name
  // service may take `timeout`, and so may each reply of the server until the login is complete.
  // All of these together may take `answers` times as long.
  static Result<std::unique_ptr<Connection>> open(const Options&, const Endpoint&, Duration timeout,
                                                  int answers = 1);
  ~Connection() override;

  // Sends one statement (or several, with `;` between) and waits for its reply, for at least
  // `least_time`. Errc::timed_out: no reply came in time. Then the connection is broken or, if it
  // `holds`, the reply is still outstanding.
  Result<SqlRows> query(std::string_view what, std::string_view sql, Deadline until);
  // The same with a format and its arguments.
  template <class... Args>
  Result<SqlRows> query(std::string_view what, Deadline until, fmt::format_string<Args...> sql,
                        Args&&... args) {
    return query(what, fmt::format(sql, std::forward<Args>(args)...), until);
  }

  // The same with values, and with other statements before and after. From its second time over
  // this connection a statement that comes alone is a prepared statement of the server (MariaDB;
  // preparing costs an exchange more). Without a reply in time the connection is broken.
  Result<SqlRows> query(std::string_view what, const Template&, const Values&,
                        std::string_view before, std::string_view behind, Deadline until);

  // Sends a statement; receive() takes its reply. Only one statement may be outstanding.
  Result<void> send(std::string_view what, std::string_view sql);

  Result<SqlRows> ask(std::string_view what, const SqlStatement&, const SqlValues&,
                      Deadline until) override;
  Result<std::optional<SqlAnswers>> receive(const Wait&) override;
  bool under_way() const noexcept override { return under_way_; }
  // The destructor does this unless close() was called.
  void abandon() noexcept override;
  int fd() const noexcept override { return fd_; }
  bool has_server_error() const noexcept override { return error_number_ != 0; }
  Remedy remedy() const noexcept override { return error_number_ == 0 ? Remedy::none : remedy_; }
  bool outlives_errors() const noexcept override { return true; }

  // of the last failed call; 0: the server reported no error
  unsigned error_number() const noexcept { return error_number_; }
  // Returns the results of the statements before the statement that failed.
  const SqlRows& answered() const noexcept { return answer_; }

  void close() noexcept;  // sends COM_QUIT; call it only if no lock depends on the session

  const Facts& facts() const noexcept { return facts_; }

  // Estimates the server's clock at that time, unless it is set meanwhile. The result is too low by
  // the transit time of the server's reply.
  std::optional<Micros> server_time(Deadline) const noexcept;
  // Returns how long a statement waits for a locked row.
  Duration row_wait() const noexcept { return row_wait_; }

  // Makes the server end the session after this long without a message, rounded up to seconds.
  Result<void> wait_timeout(Duration, Deadline until);

  Duration least_time{};
  std::vector<std::string> names;  // named locks that this session has
  // A named lock of this session, which its grants name. To release it wakes waiters. Empty: none.
  std::string wake_lock{};

 private:
  explicit Connection(Endpoint at) : SqlSession(at.text()), at_(std::move(at)) {}
  Result<void> connect(const Options&, const std::string& host, Duration timeout, int answers);
  Result<void> set_up(const Options&, Deadline until);
  Error error(std::string_view what);
  Error error(std::string_view what, unsigned number, const char* text);
  Result<void> read_answer();
  bool prepares(const Template&) const;
  Result<void> prepare(std::string_view what, const Template&, Deadline until);
  Result<SqlRows> execute(std::string_view what, st_mysql_stmt*, const Values&, Deadline until);
  // Continues a call of the client library.
  using Continue = int (*)(int* failed, st_mysql_stmt*, int happened);
  Result<void> go_on(std::string_view what, st_mysql_stmt*, int awaited, int failed, Continue,
                     Deadline until);
  void end_suspended() noexcept;
  void forget_statements() noexcept;

  const Endpoint at_;
  st_mysql* handle_ = nullptr;
  int fd_ = -1;
  Facts facts_;
  std::string what_;
  SqlRows answer_;
  bool under_way_ = false;
  unsigned error_number_ = 0;
  Remedy remedy_ = Remedy::none;
  std::int64_t wait_timeout_ = 0;
  Duration row_wait_{};
  std::map<std::string, st_mysql_stmt*> repeated_;  // by name; null: sent once, as text
  bool prepares_ = true;
  // a call that has not ended, because its reply did not come in time
  st_mysql_stmt* suspended_ = nullptr;
  Continue continue_ = nullptr;
};

// A Client and a LeaseTable of MySQL always get a Connection.
inline Connection& as_connection(SqlSession& s) noexcept { return static_cast<Connection&>(s); }
inline const Connection& as_connection(const SqlSession& s) noexcept {
  return static_cast<const Connection&>(s);
}

}  // namespace dlock::mysql
