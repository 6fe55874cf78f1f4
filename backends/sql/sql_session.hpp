// SPDX-License-Identifier: Apache-2.0
// A session of a database server, in the form that MySQL and PostgreSQL share: one request at a
// time, each with a deadline. Only the thread that owns the Backend calls these functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
#include "common/exchange.hpp"
#include "core/number.hpp"

namespace dlock {

// The reply to a statement. MySQL returns one SqlRows for several statements: the rows of all.
struct SqlRows {
  std::vector<std::vector<std::optional<std::string>>> rows;
  std::uint64_t affected = 0;   // rows that matched, not only rows that changed
  std::uint64_t insert_id = 0;  // MySQL only, like `results`
  unsigned results = 0;         // how many statements were answered

  // Returns whether the value exists and is not NULL.
  bool has(std::size_t column, std::size_t row = 0) const noexcept;
  std::string_view text(std::size_t column, std::size_t row = 0) const noexcept;
  template <class T>
  std::optional<T> number(std::size_t column, std::size_t row = 0) const noexcept {
    return parse_number<T>(text(column, row));
  }
};
using SqlAnswers = std::vector<SqlRows>;

// A statement with $1, $2, ... for its values. PostgreSQL prepares it under its name when a session
// sends it for the first time. Without a name it is sent as text.
struct SqlStatement {
  std::string name, sql;
};
using SqlValue = std::variant<std::int64_t, std::uint64_t, std::string>;
using SqlValues = std::vector<SqlValue>;

class SqlSession {
 public:
  virtual ~SqlSession() = default;
  SqlSession(const SqlSession&) = delete;
  SqlSession& operator=(const SqlSession&) = delete;

  // Sends one statement and waits for its reply. Errc::timed_out: the outcome is unknown.
  virtual Result<SqlRows> ask(std::string_view what, const SqlStatement&, const SqlValues&,
                              Deadline until) = 0;
  // Returns the replies to the request that is under way; nullopt: they have not come yet.
  virtual Result<std::optional<SqlAnswers>> receive(const Wait&) = 0;
  virtual bool under_way() const noexcept = 0;
  // Closes this end without a message to the server. A process with a duplicate of the socket keeps
  // the session.
  virtual void abandon() noexcept = 0;
  virtual int fd() const noexcept = 0;

  // Return whether the server reported an error for the last call, and what helps against it.
  virtual bool has_server_error() const noexcept = 0;
  virtual Remedy remedy() const noexcept = 0;
  // Returns whether the session can be used after any error of a statement, not only after a
  // missing table.
  virtual bool outlives_errors() const noexcept = 0;
  // Returns whether nothing can be sent any more. The socket stays open until the object ends.
  bool broken() const noexcept { return broken_; }
  void why_untrusted() noexcept { broken_ = true; }  // call it after a malformed reply

  const std::string& where() const noexcept { return where_; }  // the server, for messages
  std::uint64_t exchanges() const noexcept { return exchanges_; }

  // The session has a lock that ends with it. So dlock keeps the session after a request without a
  // reply, and a late reply may still come.
  bool holds = false;
  // The session has worked before, so a failure may only mean that the server closed the session
  // meanwhile.
  bool used = false;

 protected:
  explicit SqlSession(std::string where) : where_(std::move(where)) {}

  const std::string where_;
  bool broken_ = false;
  std::uint64_t exchanges_ = 0;
};

}  // namespace dlock
