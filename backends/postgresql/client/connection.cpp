// SPDX-License-Identifier: Apache-2.0
#include "postgresql/client/connection.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>
#include <algorithm>
#include "util/fd.hpp"
#include "util/wait.hpp"

namespace dlock::postgresql {

Connection::~Connection() {
  if (handle_) ::PQfinish(handle_);
}

// Puts /dev/null in the place of the socket, so that libpq's last message does not reach the
// server.
void Connection::abandon() noexcept {
  const Fd nowhere{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const int socket = fd();
  if (socket < 0 || (nowhere && ::dup3(nowhere.get(), socket, O_CLOEXEC) == socket)) return;
  ::close(socket);  // no descriptor is free: never call PQfinish(), which would send that message
  handle_ = nullptr;
}

int Connection::fd() const noexcept { return handle_ ? ::PQsocket(handle_) : -1; }

Error Connection::lost(std::string_view what) {
  broken_ = true;
  sent_.clear();
  Error e = as_error(what, where_, sqlstate_, handle_ ? ::PQerrorMessage(handle_) : "");
  if (sqlstate_.empty()) e.code = Errc::timed_out;  // the request may have been carried out
  return e;
}

// A late reply is never read.
Error Connection::silent() {
  broken_ = true;
  sent_.clear();
  return no_answer(what_, where_);
}

Micros Connection::server_time(Deadline then) const noexcept {
  return facts_.clock + std::chrono::duration_cast<Duration>(then - facts_.clock_at).count();
}

Result<void> Connection::flush(Deadline until) {
  for (int left = 0; (left = ::PQflush(handle_)) != 0;) {
    pollfd p{::PQsocket(handle_), POLLIN | POLLOUT, 0};
    if (left < 0) return fail(lost(what_));
    if (wait_until({&p, 1}, until) <= 0) return fail(silent());
    if ((p.revents & POLLIN) != 0 && ::PQconsumeInput(handle_) == 0) return fail(lost(what_));
  }
  return {};
}

Result<void> Connection::send(std::string_view what, std::span<const Call> calls, Deadline until) {
  if (broken_ || !handle_)
    return fail(Errc::unavailable, "{} at {}: the connection is gone", what, where_);
  if (under_way()) return fail(Errc::internal, "an answer is under way");
  what_ = what;
  sqlstate_.clear();
  why_.clear();
  ++exchanges_;
  std::vector<const char*> values;
  bool good = true;
  for (const Call& call : calls) {
    const auto& [name, sql] = call.statement;
    values.clear();
    for (const auto& v : call.values) values.push_back(v.c_str());
    const int n = static_cast<int>(values.size());
    const bool whole = facts_.proxied || name.empty();
    const bool prepare = !whole && !prepared_.contains(name);
    if (prepare) good &= ::PQsendPrepare(handle_, name.c_str(), sql.c_str(), 0, nullptr) == 1;
    good &= (whole ? ::PQsendQueryParams(handle_, sql.c_str(), n, nullptr, values.data(), nullptr,
                                         nullptr, 0)
                   : ::PQsendQueryPrepared(handle_, name.c_str(), n, values.data(), nullptr,
                                           nullptr, 0)) == 1;
    good &= ::PQpipelineSync(handle_) == 1;
    sent_.push_back(prepare ? name : "");
  }
  answers_.assign(calls.size(), {});
  done_ = 0;
  if (!good) return fail(lost(what_));
  return flush(until);
}

void Connection::read_result(const PGresult* r) {
  SqlRows& out = answers_[done_];
  const char* state = nullptr;
  switch (::PQresultStatus(r)) {
    case PGRES_PIPELINE_SYNC: ++done_; return;
    case PGRES_COMMAND_OK:
      // The reply to PREPARE comes before the reply to the statement.
      if (auto& name = sent_[done_]; !name.empty()) {
        prepared_.insert(std::exchange(name, {}));
        return;
      }
      out.affected =
          parse_number<std::uint64_t>(::PQcmdTuples(const_cast<PGresult*>(r))).value_or(0);
      return;
    case PGRES_TUPLES_OK:
      for (int row = 0; row < ::PQntuples(r); ++row) {
        auto& to = out.rows.emplace_back();
        for (int i = 0; i < ::PQnfields(r); ++i) {
          const auto size = static_cast<std::size_t>(::PQgetlength(r, row, i));
          if (::PQgetisnull(r, row, i) == 1) to.emplace_back();
          else to.emplace_back(std::string{::PQgetvalue(r, row, i), size});
        }
      }
      out.affected = out.rows.size();
      return;
    case PGRES_PIPELINE_ABORTED: return;
    default:
      state = ::PQresultErrorField(r, PG_DIAG_SQLSTATE);
      if (!why_.empty()) return;
      why_ = ::PQresultErrorMessage(r);
      if (why_.empty()) why_ = "the connection is gone";
      if (state) sqlstate_ = state;
  }
}

Result<std::optional<SqlAnswers>> Connection::receive(const Wait& wait) {
  if (!under_way()) return fail(Errc::internal, "nothing was asked");
  while (done_ < sent_.size()) {
    while (::PQisBusy(handle_) == 1) {
      if (!wait_for(::PQsocket(handle_), POLLIN, wait)) return std::nullopt;
      if (::PQconsumeInput(handle_) == 0) break;
    }
    // A connection that has ended still delivers what came before its end, such as the last error.
    const std::unique_ptr<PGresult, decltype(&::PQclear)> r(::PQgetResult(handle_), &::PQclear);
    if (r) read_result(r.get());
    if (::PQstatus(handle_) == CONNECTION_BAD) {
      Error e = lost(what_);
      if (!why_.empty() && !sqlstate_.empty()) e = as_error(what_, where_, sqlstate_, why_);
      if (e.code == Errc::unavailable || e.code == Errc::protocol) e.code = Errc::timed_out;
      return fail(std::move(e));
    }
  }
  sent_.clear();
  if (!why_.empty()) {
    broken_ |= remedy() != Remedy::create && !holds;
    return fail(as_error(what_, where_, sqlstate_, why_));
  }
  used = true;
  return std::move(answers_);
}

// A pooler that shares sessions gets one statement at a time.
Result<SqlAnswers> Connection::exchange(std::string_view what, std::span<const Call> calls,
                                        Deadline until) {
  SqlAnswers all;
  const std::size_t step = facts_.proxied ? 1 : calls.size();
  for (std::size_t at = 0; at < calls.size(); at += step) {
    const Deadline end = std::max(until, later(Clock::now(), least_time_));
    TRY_VOID(send(what, calls.subspan(at, step), end));
    TRY(answers, receive({end}));
    if (!answers) return fail(silent());
    for (auto& rows : *answers) all.push_back(std::move(rows));
  }
  return all;
}

Result<SqlRows> Connection::query(std::string_view what, const Call& call, Deadline until) {
  TRY(answers, exchange(what, {&call, 1}, until));
  return std::move(answers.front());
}

Result<SqlRows> Connection::ask(std::string_view what, const SqlStatement& statement,
                                const SqlValues& values, Deadline until) {
  Call call{statement};
  for (const SqlValue& value : values) {
    const auto* text = std::get_if<std::string>(&value);
    call.values.push_back(
        text ? *text : std::visit([](const auto& v) { return fmt::format("{}", v); }, value));
  }
  return query(what, call, until);
}

}  // namespace dlock::postgresql
