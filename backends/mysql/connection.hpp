// SPDX-License-Identifier: Apache-2.0
// One connection to a server, over the blocking client library. Statements are sent and their answers waited for in poll(2), so every wait has a
// deadline and can be interrupted, and a wait in the server (GET_LOCK, FOR UPDATE) goes on while its caller does something else.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/lock_state.hpp"
#include "core/owner.hpp"
#include "mysql/options.hpp"
#include "mysql/server_error.hpp"
#include "util/fd.hpp"

struct st_mysql;

namespace dlock::mysql {

struct Wait {
  Deadline until;
  int interrupt_fd = -1;  // readable: the wait is over
};
// Until `events` on `fd` happen (true), or the wait is over.
bool wait_for(int fd, short events, const Wait&) noexcept;

// The result of a statement; of several the rows of the last, and all that they affected.
struct Answer {
  std::vector<std::vector<std::optional<std::string>>> rows;
  std::uint64_t affected = 0;  // rows that matched, not only those that changed
  std::uint64_t insert_id = 0;
  unsigned results = 0;  // of so many statements

  bool has(std::size_t column, std::size_t row = 0) const noexcept;  // there, and not NULL
  std::string_view text(std::size_t column, std::size_t row = 0) const noexcept;
  std::optional<std::int64_t> number(std::size_t column, std::size_t row = 0) const noexcept;
  std::optional<std::uint64_t> unsigned_number(std::size_t column, std::size_t row = 0) const noexcept;
};

// What the server says of itself when we connect.
struct Facts {
  unsigned long thread = 0;  // CONNECTION_ID()
  std::string server;        // tells servers apart
  std::string version;
  bool mariadb = false, galera = false, read_only = false;
  bool proxied = false;  // the server's id of this connection is not the one that we were told: a proxy shares connections
  std::int64_t wait_timeout = 0;
  std::optional<Micros> clock;  // the server's, microseconds since 1970, when we connected
  Deadline clock_at{};          // when its answer came
};

// Values as they go into statements: digits, or hex, which no character set and no quote can change.
std::string hex(std::string_view bytes);   // x'..'
std::string text_hex(std::string_view s);  // _utf8mb4 x'..', for what the server compares as text

class Connection {
 public:
  // Connects and verifies until `timeout` has passed, then sets the session up, which is an exchange like others.
  static Result<std::unique_ptr<Connection>> open(const Options&, const Server&, Duration timeout);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One statement (or several, `;` between) and its answer. Errc::timed_out: none in time; the connection is then broken, or if it is `patient`
  // the answer is still under way.
  Result<Answer> query(std::string_view what, std::string_view sql, Deadline until);

  // The same in two steps. One statement is under way at a time.
  Result<void> send(std::string_view what, std::string_view sql);
  Result<std::optional<Answer>> receive(const Wait&);  // nothing: not yet
  bool under_way() const noexcept { return under_way_; }

  // The connection cannot be used any more; its socket is still open until the object ends.
  bool broken() const noexcept { return broken_; }
  unsigned error_number() const noexcept { return error_number_; }  // of the last failed call; 0: none of the server's
  Remedy remedy() const noexcept { return classify(error_number_).remedy; }

  // What it answers makes no sense.
  void distrust() noexcept { broken_ = true; }

  // Our end goes, and nothing is said to the server: whoever has a duplicate of the socket keeps the session. What the destructor does
  // unless close() was called.
  void abandon() noexcept;
  void close() noexcept;  // says so to the server; only where nobody's lock depends on the session

  int fd() const noexcept { return fd_; }
  const Facts& facts() const noexcept { return facts_; }
  const Server& at() const noexcept { return at_; }
  std::uint64_t statements() const noexcept { return statements_; }

  // What the server's clock will say then, if nobody sets it meanwhile; too little by what its answer was under way.
  std::optional<Micros> server_time(Deadline) const noexcept;
  Duration row_wait() const noexcept { return row_wait_; }  // for so long a statement waits for a row that others have locked

  // The session ends when the server has not heard of us for so long. Whole seconds, rounded up.
  Result<void> wait_timeout(Duration, Deadline until);

  // An epoll(7) descriptor, readable when an answer comes that nobody asked for, or the end. It stays until silence() gives it away.
  int alarm();
  Fd silence();  // without the socket: it says nothing any more

  bool patient = false;
  bool used = false;               // it has worked before: that it fails now may only mean that the server closed it meanwhile
  std::vector<std::string> names;  // named locks that this session has
  bool recorded = false;           // a record of a lock that this session has given back still names it

 private:
  explicit Connection(Server at) : at_(std::move(at)) {}
  Result<void> connect(const Options&, Duration timeout);
  Result<void> set_up(const Options&, Deadline until);
  Error error(std::string_view what);
  Result<Answer> read_answer();

  const Server at_;
  st_mysql* handle_ = nullptr;
  int fd_ = -1;
  Fd alarm_;
  Facts facts_;
  std::string what_;
  bool under_way_ = false, broken_ = false;
  unsigned error_number_ = 0;
  std::uint64_t statements_ = 0;
  std::int64_t wait_timeout_ = 0;
  Duration row_wait_{};
};

}  // namespace dlock::mysql
