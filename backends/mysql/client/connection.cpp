// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/connection.hpp"
#include <fcntl.h>
#include <mysql.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include "core/key.hpp"
#include "core/number.hpp"
#include "mysql/client/steps.hpp"
#include "util/fd.hpp"

namespace dlock::mysql {
namespace {

// Returns `before`, the bytes in hex, and a quote. It allocates only once, because every statement
// has several such literals.
std::string hex_literal(std::string_view before, std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out(before.size() + bytes.size() * 2 + 1, '\'');
  char* to = std::copy(before.begin(), before.end(), out.data());
  for (const char c : bytes) {
    *to++ = digits[static_cast<unsigned char>(c) >> 4];
    *to++ = digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

}  // namespace

std::string hex(std::string_view bytes) { return hex_literal("x'", bytes); }
std::string text_hex(std::string_view s) { return hex_literal("_utf8mb4 x'", s); }

Connection::~Connection() { abandon(); }

// mysql_close sends COM_QUIT, and over TLS a close alert. So the socket is first replaced by a
// socket that leads to no server.
void Connection::abandon() noexcept {
  if (!handle_) return;
  // If the library has closed its socket, another descriptor may have that number by now.
  fd_ = socket_of(handle_);
  int nowhere[2] = {-1, -1};
  const bool harmless =
      fd_ < 0 || (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, nowhere) == 0 &&
                  ::dup3(nowhere[0], fd_, O_CLOEXEC) == fd_);
  const Fd here{nowhere[0]}, there{nowhere[1]};
  if (harmless) {
    end_suspended();
    ::mysql_close(handle_);
    forget_statements();
  } else {  // no descriptor is free: an extra session on the server does less harm than a COM_QUIT
    ::close(fd_);
  }
  handle_ = nullptr;
  fd_ = -1;
}

void Connection::close() noexcept {
  if (broken_ || under_way_) return abandon();
  if (handle_) ::mysql_close(handle_);
  forget_statements();
  handle_ = nullptr;
  fd_ = -1;
}

Error Connection::error(std::string_view what) {
  return error(what, ::mysql_errno(handle_), ::mysql_error(handle_));
}
Error Connection::error(std::string_view what, unsigned number, const char* text) {
  error_number_ = number;
  under_way_ = false;
  remedy_ = classify(error_number_, text).remedy;
  broken_ |= remedy_ == Remedy::reconnect || (error_number_ >= 2000 && error_number_ < 3000);
  return as_error(what, where_, error_number_, text);
}

Result<void> Connection::send(std::string_view what, std::string_view sql) {
  if (broken_ || !handle_)
    return fail(Errc::unavailable, "{} at {}: the connection is gone", what, where_);
  error_number_ = 0;
  what_ = what;
  answer_ = {};
  ++exchanges_;
  if (::mysql_send_query(handle_, sql.data(), static_cast<unsigned long>(sql.size())) != 0)
    return fail(error(what));
  under_way_ = true;
  return {};
}

Result<std::optional<SqlAnswers>> Connection::receive(const Wait& wait) {
  if (!under_way_) return fail(Errc::internal, "nothing was asked");
  if (!wait_for(fd_, POLLIN, wait)) return std::nullopt;
  TRY_VOID(read_answer());
  return SqlAnswers{std::move(answer_)};
}

Result<void> Connection::read_answer() {
  if (::mysql_read_query_result(handle_) != 0) return fail(error(what_));
  for (;;) {
    MYSQL_RES* const result = ::mysql_store_result(handle_);
    if (!result && ::mysql_field_count(handle_) > 0) return fail(error(what_));
    if (!result) answer_.affected += ::mysql_affected_rows(handle_);
    answer_.insert_id = ::mysql_insert_id(handle_);
    if (result) {
      const unsigned columns = ::mysql_num_fields(result);
      while (MYSQL_ROW row = ::mysql_fetch_row(result)) {
        const unsigned long* const lengths = ::mysql_fetch_lengths(result);
        auto& out = answer_.rows.emplace_back(columns);
        for (unsigned i = 0; i < columns; ++i)
          if (row[i]) out[i].emplace(row[i], lengths[i]);
      }
      ::mysql_free_result(result);
    }
    ++answer_.results;
    const int more = ::mysql_next_result(handle_);
    if (more < 0) break;
    if (more > 0) return fail(error(what_));
  }
  under_way_ = false;
  used = true;
  return {};
}

Result<SqlRows> Connection::query(std::string_view what, std::string_view sql, Deadline until) {
  TRY_VOID(send(what, sql));
  TRY(answers, receive({std::max(until, later(Clock::now(), least_time))}));
  if (answers) return std::move(answers->front());
  broken_ = !holds;
  return fail(no_answer(what, where_));
}

std::optional<Micros> Connection::server_time(Deadline then) const noexcept {
  if (!facts_.clock) return std::nullopt;
  return *facts_.clock + std::chrono::duration_cast<Duration>(then - facts_.clock_at).count();
}

Result<void> Connection::wait_timeout(Duration d, Deadline until) {
  const std::int64_t s =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(d).count());
  if (s == wait_timeout_) return {};
  TRY_VOID(query("set wait_timeout", until, "SET SESSION wait_timeout={}", s));
  wait_timeout_ = s;
  return {};
}

}  // namespace dlock::mysql
