// SPDX-License-Identifier: Apache-2.0
// Repeated statements are sent as text the first time. At the second time the server prepares them:
// it parses them once, and values need no escapes. Connector/C prepares and executes by steps, and
// between the steps dlock itself waits.
#include <mysql.h>
#include <mysqld_error.h>
#include "mysql/client/connection.hpp"
#include "mysql/client/steps.hpp"
#include "util/overloaded.hpp"
#include "util/wait.hpp"

namespace dlock::mysql {
namespace {

std::string as_text(const Template& t, const Values& values) {
  std::string sql;
  auto value = values.begin();
  for (const char c : t.text) c == '?' ? sql.append(literal(*value++)) : (sql.push_back(c), sql);
  return sql;
}

}  // namespace

std::string literal(const Value& v) {
  return std::visit(Overloaded{[](const Bytes& b) { return hex(b.data); },
                               [](const Text& t) { return text_hex(t.data); },
                               [](auto number) { return std::to_string(number); }},
                    v);
}

Result<SqlRows> Connection::ask(std::string_view what, const SqlStatement& statement,
                                const SqlValues& values, Deadline until) {
  std::string sql;
  std::string_view rest = statement.sql;
  for (std::size_t at; (at = rest.find('$')) != rest.npos; rest.remove_prefix(at + 2)) {
    sql += rest.substr(0, at);
    sql += std::visit(Overloaded{[](const std::string& text) { return hex(text); },
                                 [](auto number) { return std::to_string(number); }},
                      values[static_cast<std::size_t>(rest[at + 1] - '1')]);
  }
  return query(what, sql.append(rest), until);
}

#ifdef MARIADB_PACKAGE_VERSION
namespace {

// The result points to the value, so the value must outlive the result.
MYSQL_BIND bind(const Value& v) {
  MYSQL_BIND b{};
  const auto set = [&b](enum_field_types type, const void* data, std::size_t size) {
    b.buffer_type = type;
    b.buffer = const_cast<void*>(data);
    b.buffer_length = static_cast<unsigned long>(size);
  };
  std::visit(
      Overloaded{[&](const Bytes& x) { set(MYSQL_TYPE_BLOB, x.data.data(), x.data.size()); },
                 [&](const Text& x) { set(MYSQL_TYPE_STRING, x.data.data(), x.data.size()); },
                 [&](const std::int64_t& n) { set(MYSQL_TYPE_LONGLONG, &n, sizeof n); },
                 [&](const std::uint64_t& n) {
                   set(MYSQL_TYPE_LONGLONG, &n, sizeof n);
                   b.is_unsigned = 1;
                 }},
      v);
  return b;
}

}  // namespace

// Only the deadline ends the wait. The unfinished call then ends with the connection.
Result<void> Connection::go_on(std::string_view what, MYSQL_STMT* s, int awaited, int failed,
                               Continue go, Deadline until) {
  until = std::max(until, later(Clock::now(), least_time));
  while (awaited != 0) {
    pollfd p[] = {{fd_, events_of(awaited), 0}};
    wait_until(p, until);
    if (const int happened = happened_of(p[0].revents, awaited); happened != 0) {
      awaited = go(&failed, s, happened);
    } else if (Clock::now() >= until) {
      broken_ = true;
      suspended_ = s;
      continue_ = go;
      return fail(no_answer(what, where_));
    }
  }
  if (failed != 0) return fail(error(what, ::mysql_stmt_errno(s), ::mysql_stmt_error(s)));
  return {};
}

// Call it only after the socket was disconnected.
void Connection::end_suspended() noexcept {
  int failed = 0;
  while (suspended_ && continue_(&failed, suspended_, MYSQL_WAIT_TIMEOUT) != 0) {}
  suspended_ = nullptr;
}

// The connection is closed, so this only frees memory.
void Connection::forget_statements() noexcept {
  for (const auto& [name, s] : repeated_)
    if (s) ::mysql_stmt_close(s);
  repeated_.clear();
}

Result<void> Connection::prepare(std::string_view what, const Template& t, Deadline until) {
  MYSQL_STMT* const s = ::mysql_stmt_init(handle_);
  if (!s) return fail(Errc::internal, "no memory for a prepared statement");
  repeated_[t.name] = s;
  ++exchanges_;
  int failed = 0;
  const int awaited = ::mysql_stmt_prepare_start(&failed, s, t.text.data(),
                                                 static_cast<unsigned long>(t.text.size()));
  return go_on(what, s, awaited, failed, ::mysql_stmt_prepare_cont, until);
}

Result<SqlRows> Connection::execute(std::string_view what, MYSQL_STMT* s, const Values& values,
                                    Deadline until) {
  std::vector<MYSQL_BIND> bound;
  for (const Value& v : values) bound.push_back(bind(v));
  if (::mysql_stmt_bind_param(s, bound.data()) != 0)
    return fail(error(what, ::mysql_stmt_errno(s), ::mysql_stmt_error(s)));
  ++exchanges_;
  int failed = 0;
  const int awaited = ::mysql_stmt_execute_start(&failed, s);
  TRY_VOID(go_on(what, s, awaited, failed, ::mysql_stmt_execute_cont, until));
  used = true;
  SqlRows answer;
  answer.affected = ::mysql_stmt_affected_rows(s);
  answer.insert_id = ::mysql_stmt_insert_id(s);
  answer.results = 1;
  return answer;
}

bool Connection::prepares(const Template& t) const {
  return prepares_ && !broken_ && handle_ && repeated_.contains(t.name);
}
#else
Result<void> Connection::prepare(std::string_view, const Template&, Deadline) {
  return fail(Errc::internal, "not with this client library");
}
Result<SqlRows> Connection::execute(std::string_view, MYSQL_STMT*, const Values&, Deadline) {
  return fail(Errc::internal, "not with this client library");
}
void Connection::end_suspended() noexcept {}
void Connection::forget_statements() noexcept {}
bool Connection::prepares(const Template&) const { return false; }
#endif

Result<SqlRows> Connection::query(std::string_view what, const Template& t, const Values& values,
                                  std::string_view before, std::string_view behind,
                                  Deadline until) {
  if (before.empty() && behind.empty() && prepares(t)) {
    error_number_ = 0;
    const bool made = repeated_[t.name] != nullptr;
    const auto ready = made ? Result<void>{} : prepare(what, t, until);
    if (ready) {
      auto answer = execute(what, repeated_[t.name], values, until);
      if (!answer && error_number_ == ER_UNKNOWN_STMT_HANDLER) prepares_ = false;
      return answer;
    }
    prepares_ = false;
    if (error_number_ != ER_MAX_PREPARED_STMT_COUNT_REACHED) return fail(ready.error());
  }
  auto answer = query(what, fmt::format("{}{}{}", before, as_text(t, values), behind), until);
  if (answer && facts_.mariadb && !facts_.proxied) repeated_.try_emplace(t.name, nullptr);
  return answer;
}

}  // namespace dlock::mysql
