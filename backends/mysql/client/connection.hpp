// SPDX-License-Identifier: Apache-2.0
// One connection to a server, over the blocking client library. It sends statements, and waits for
// their replies in poll(2). So every wait has a deadline and can be interrupted. A wait in the
// server (GET_LOCK, FOR UPDATE) can go on while the caller does something else. The thread that
// owns the Backend calls it.
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
  // The binary log is statement-based. Then InnoDB refuses writes at READ COMMITTED.
  bool statement_log = false;
  // The server's id of this connection differs from the id in the greeting, so a proxy shares
  // connections.
  bool proxied = false;
  std::int64_t wait_timeout = 0;
  std::optional<Micros> clock;  // the server's clock, in microseconds since 1970, when we connected
  Deadline clock_at{};          // when the reply with `clock` arrived
};

// An SQL condition: the server accepts writes. Each statement evaluates the condition, because the
// Facts of a connection are as old as its login. With a statement-based binary log, a replica would
// evaluate the condition again, with another result, because a replica is read-only. Where that
// matters, the statement has a variable with the result, and the log contains the variable's value.
inline constexpr std::string_view server_writes = "CAST(@@global.read_only AS CHAR) IN ('0','OFF')";

// The server's clock in microseconds since 1970. It is fixed when a statement starts, before the
// statement reads the row. So the statement may find a lease expired too late, but never too early.
inline constexpr std::string_view server_clock =
    "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

// Values in statements are written as digits or hex, so no character set and no quote can change
// them.
std::string hex(std::string_view bytes);   // x'..'
std::string text_hex(std::string_view s);  // _utf8mb4 x'..', which the server compares as text

// A value of a Template. `Text`: the server compares it as text, in utf8mb4.
struct Bytes {
  std::string data;
};
struct Text {
  std::string data;
};
using Value = std::variant<std::int64_t, std::uint64_t, Bytes, Text>;
using Values = std::vector<Value>;
std::string literal(const Value&);

// A statement that is used repeatedly and returns no rows. Each `?` in `text` stands for a value.
struct Template {
  std::string name, text;
};

class Connection final : public SqlSession {
 public:
  // Connects, verifies the server, and configures the session. The name service may take `timeout`,
  // and so may each reply of the server until the login is complete. All replies of the login
  // together may take `answers` times `timeout`. After that, configuring the session takes one
  // exchange like any other.
  static Result<std::unique_ptr<Connection>> open(const Options&, const Endpoint&, Duration timeout,
                                                  int answers = 1);
  ~Connection() override;

  // Sends one statement (or several, with `;` between) and waits for its reply until `until`, but
  // for at least `least_time`. Errc::timed_out: no reply came in time. Then the connection is
  // broken, unless SqlSession::holds is true: in this case the reply is still outstanding.
  Result<SqlRows> query(std::string_view what, std::string_view sql, Deadline until);
  // The same with a format and its arguments.
  template <class... Args>
  Result<SqlRows> query(std::string_view what, Deadline until, fmt::format_string<Args...> sql,
                        Args&&... args) {
    return query(what, fmt::format(sql, std::forward<Args>(args)...), until);
  }

  // The same for a Template and its values. `before` and `behind`: other statements to send with
  // it. If there are none, the second and each later use over this connection is a prepared
  // statement of the server (MariaDB only). Preparing costs one more exchange. If no reply comes in
  // time, the connection is broken.
  Result<SqlRows> query(std::string_view what, const Template&, const Values&,
                        std::string_view before, std::string_view behind, Deadline until);

  // Sends a statement; receive() takes its reply. Only one statement may be outstanding.
  Result<void> send(std::string_view what, std::string_view sql);

  Result<SqlRows> ask(std::string_view what, const SqlStatement&, const SqlValues&,
                      Deadline until) override;
  Result<std::optional<SqlAnswers>> receive(const Wait&) override;
  bool under_way() const noexcept override { return under_way_; }
  // The destructor calls abandon(), unless close() was called.
  void abandon() noexcept override;
  int fd() const noexcept override { return fd_; }
  bool has_server_error() const noexcept override { return error_number_ != 0; }
  Remedy remedy() const noexcept override { return error_number_ == 0 ? Remedy::none : remedy_; }
  bool outlives_errors() const noexcept override { return true; }

  // Returns the error number of the last failed call; 0: the server reported no error.
  unsigned error_number() const noexcept { return error_number_; }
  // Returns the results of the statements before the statement that failed.
  const SqlRows& answered() const noexcept { return answer_; }

  void close() noexcept;  // sends COM_QUIT; call it only if no lock depends on the session

  const Facts& facts() const noexcept { return facts_; }

  // Estimates what the server's clock shows at that time, if nobody sets the clock until then. The
  // estimate is too low by the transit time of the server's reply.
  std::optional<Micros> server_time(Deadline) const noexcept;
  // Returns how long a statement waits for a locked row at most.
  Duration row_wait() const noexcept { return row_wait_; }

  // Makes the server end the session after this long without a message, rounded up to seconds.
  Result<void> wait_timeout(Duration, Deadline until);

  Duration least_time{};
  std::vector<std::string> names;  // named locks that this session has
  // A named lock of this session. The session's grants name this lock, and waiters wake when it is
  // released. Empty: the session has no such lock.
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
  // A function of the client library that continues one of its calls.
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
  // By Template::name. Null: the statement was sent only as text, and is not prepared.
  std::map<std::string, st_mysql_stmt*> repeated_;
  bool prepares_ = true;
  // The statement and the function of a call that has not ended, because its reply did not come in
  // time.
  st_mysql_stmt* suspended_ = nullptr;
  Continue continue_ = nullptr;
};

// Every session that a Client or a LeaseTable of MySQL gets is a Connection.
inline Connection& as_connection(SqlSession& s) noexcept { return static_cast<Connection&>(s); }
inline const Connection& as_connection(const SqlSession& s) noexcept {
  return static_cast<const Connection&>(s);
}

}  // namespace dlock::mysql
