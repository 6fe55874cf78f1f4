// SPDX-License-Identifier: Apache-2.0
// One session of a server. libpq is used without blocking: its descriptor is waited for in poll(2),
// so every wait has a deadline and can be interrupted, and a wait in the server (for an advisory
// lock) goes on while its caller does something else.
//
// Several statements are sent together and answered together: one exchange. Each is a transaction
// of its own, carried out in order whatever became of those before it.
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

struct pg_conn;
struct pg_result;

namespace dlock::postgresql {

// The answer to one statement.
struct Rows {
  std::vector<std::vector<std::optional<std::string>>> rows;
  std::uint64_t affected = 0;

  bool has(std::size_t column, std::size_t row = 0) const noexcept;  // exists and is not NULL
  std::string_view text(std::size_t column, std::size_t row = 0) const noexcept;
  template <class T>
  std::optional<T> number(std::size_t column, std::size_t row = 0) const noexcept {
    return parse_number<T>(text(column, row));
  }
};

// A statement that is prepared the first time a session sends it. Behind a pooler it is sent whole.
struct Statement {
  std::string name, sql;
};
struct Call {
  const Statement& statement;
  std::vector<std::string> values{};  // $1, $2, ...
};
using Answers = std::vector<Rows>;

// The server's time in microseconds since 1970, fixed when it receives the statement: expiry is
// judged late, never early.
inline constexpr std::string_view server_clock =
    "(date_part('epoch',statement_timestamp())*1e6)::bigint";

struct Facts {
  std::string version;
  bool read_only = false;
  // a pooler between: this session may be another one at the next statement
  bool proxied = false;
  int pid = 0;
  Micros clock = 0;  // at
  Deadline clock_at{};
};

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const Options&, const Server&, Duration timeout);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends, and waits for the answers, op_timeout at least. Errc::timed_out: the outcome is unknown,
  // and the session is given up, as after every error but a missing table.
  Result<Answers> exchange(std::string_view what, std::span<const Call>, Deadline until);
  Result<Rows> query(std::string_view what, const Call&, Deadline until);
  // The same in two steps; nothing: not yet.
  Result<void> send(std::string_view what, std::span<const Call>, Deadline until);
  Result<std::optional<Answers>> receive(const Wait&);
  bool under_way() const noexcept { return !sent_.empty(); }

  // Its end is not told to the server, over TLS, too: a process with a duplicate of the socket
  // keeps the session.
  void abandon() noexcept;

  static constexpr bool outlives_errors = false;  // but for a missing table
  // Nothing can be sent over it any more.
  bool broken() const noexcept { return broken_; }
  void distrust() noexcept { broken_ = true; }
  // of the last failed call; empty: none of the server's
  const std::string& sqlstate() const noexcept { return sqlstate_; }
  bool has_server_error() const noexcept { return !sqlstate_.empty(); }
  Remedy remedy() const noexcept { return classify(sqlstate_).remedy; }

  const Facts& facts() const noexcept { return facts_; }
  const Server& at() const noexcept { return at_; }
  std::uint64_t exchanges() const noexcept { return exchanges_; }
  int fd() const noexcept;
  // The expected clock of the server at that time; too low by the transit time of its answer.
  Micros server_time(Deadline) const noexcept;
  Duration row_wait() const noexcept { return row_wait_; }  // for a row that another changes

  // Advisory locks of this session: that of its place in a queue, or of its grant, and its bell.
  std::set<std::uint64_t> locks;
  std::uint64_t bell = 0;
  bool holds = false;  // a lock: only its end gives it up, no error of a statement
  bool used = false;   // it has worked before: a failure may only mean that it was closed meanwhile

 private:
  explicit Connection(Server at) : at_(std::move(at)) {}
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
  bool broken_ = false;
  std::uint64_t exchanges_ = 0;
  Duration row_wait_{}, least_time_{};
  std::set<std::string> prepared_;
  // not all answered yet: what each call prepared; empty: nothing
  std::vector<std::string> sent_;
  Answers answers_;
  std::size_t done_ = 0;  // of `sent_`
};

}  // namespace dlock::postgresql
