// SPDX-License-Identifier: Apache-2.0
#include "sql/sql_client.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock {

bool SqlRows::has(std::size_t column, std::size_t row) const noexcept {
  return row < rows.size() && column < rows[row].size() && rows[row][column];
}
std::string_view SqlRows::text(std::size_t column, std::size_t row) const noexcept {
  return has(column, row) ? std::string_view{*rows[row][column]} : std::string_view{};
}

Deadline SqlClient::usual_deadline() const noexcept {
  return later(Clock::now(),
               options().op_timeout + (ever_connected_ ? Duration{} : options().connect_timeout));
}

std::uint64_t SqlClient::exchanges() const noexcept {
  std::uint64_t n = exchanges_;
  for (const auto& s : idle_) n += s->exchanges();
  for (const SqlSession* s : out_) n += s->exchanges();
  return n;
}

Result<std::unique_ptr<SqlSession>> SqlClient::session(Deadline until, bool any) {
  if (!idle_.empty()) {
    auto s = std::move(idle_.back());
    idle_.pop_back();
    out_.push_back(s.get());
    return s;
  }
  Error last{Errc::unavailable, "no time was left to connect"};
  for (std::size_t tried = 0; tried < servers_; ++tried) {
    const Duration left = std::chrono::duration_cast<Duration>(until - Clock::now());
    if (left <= Duration{} && tried > 0) break;
    // If there are several servers, none may use up the time of the others. A single server that
    // was reached before has no such limit, because it may be far away.
    const Duration share =
        std::max<Duration>(left, Duration{1'000}) / static_cast<Duration::rep>(servers_ - tried);
    const bool alone = ever_connected_ && servers_ == 1;
    auto s = open(alone ? nullptr : &share);
    if (!s && s.error().code == Errc::denied && read_password_again())
      s = open(alone ? nullptr : &share);
    auto ready = s ? prepare_session(**s, any, until) : Result<void>(fail(std::move(s.error())));
    if (ready) {
      ever_connected_ = true;
      out_.push_back(s->get());
      return s;
    }
    last = std::move(ready.error());
    if (!retryable(last.code)) break;
    next_server();
  }
  return fail(std::move(last));
}

void SqlClient::drop(std::unique_ptr<SqlSession> s) {
  if (!s) return;
  std::erase(out_, s.get());
  exchanges_ += s->exchanges();
}

Result<void> SqlClient::repeat(Deadline until, bool make, const AnyStep& step) {
  for (unsigned failures = 0;; ++failures) {
    auto s = session(until);
    if (!s) {
      if (!retryable(s.error().code) || !pause(pause_before_connect(failures), until))
        return fail(std::move(s.error()));
      continue;
    }
    auto done = attempt(**s, until, make, step);
    const bool again = !done && may_repeat(**s, done.error(), until, failures);
    give_back(std::move(*s));
    if (!again) return done;
  }
}

Result<void> SqlClient::repeat_on(SqlSession& s, Deadline until, bool make, const AnyStep& step) {
  for (unsigned failures = 0;; ++failures) {
    auto done = attempt(s, until, make, step);
    if (done || !s.outlives_errors() || s.broken()) return done;
    if (!may_repeat(s, done.error(), until, failures)) return done;
  }
}

Result<void> SqlClient::attempt(SqlSession& s, Deadline until, bool make, const AnyStep& step) {
  auto done = step(s);
  if (done || s.remedy() != Remedy::create || !make || schema_.empty() || s.broken()) return done;
  TRY_VOID(create(s, until));
  return step(s);
}

bool SqlClient::pause(Duration d, Deadline until) const {
  return later(Clock::now(), d) < until && nap(d, options().interrupt_fd);
}

Error SqlClient::no_tables(const Error& why) const {
  std::string one_line{schema_};
  std::ranges::replace(one_line, '\n', ' ');
  return {Errc::cannot_create,
          fmt::format("{}. An account with that right must run in database {}: {}", why.message,
                      printable(options().database), one_line)};
}

}  // namespace dlock
