// SPDX-License-Identifier: Apache-2.0
#include "postgresql/client/client.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::postgresql {
namespace {

constexpr int answers_of_login = 4;  // replies of a login: address, TLS, password, settings

// A request that ends a wait may arrive before the wait begins, and then does nothing. So it is
// repeated after this time.
constexpr Duration wait_ends_within{100'000};

}  // namespace

// The server undoes the settings of a block that fails, so both branches set `dlock.waited`. A lock
// that the wait obtained stays with the session or with the transaction, depending on the SQL
// function in `take`.
SqlStatement wait_statement(std::string_view take, Duration longest) {
  const auto ms = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(longest).count());
  return {"", fmt::format("DO $dlock$ BEGIN SET LOCAL lock_timeout={}; PERFORM {}; PERFORM "
                          "set_config('dlock.waited',{}::text,false); EXCEPTION WHEN "
                          "lock_not_available OR query_canceled THEN PERFORM "
                          "set_config('dlock.waited','',false); END $dlock$",
                          ms, take, server_clock)};
}
const SqlStatement waited_statement{"dlock_waited",
                                    "SELECT NULLIF(current_setting('dlock.waited',true),'')"};

std::string end_waits_in_sql(std::string_view pid) {
  return fmt::format(
      "SELECT pg_cancel_backend(l.pid) FROM pg_locks l WHERE l.pid={} AND l.locktype='advisory' "
      "AND NOT l.granted",
      pid);
}

Result<void> Client::ask_to_end(int pid, Deadline until) {
  static const SqlStatement end{"", end_waits_in_sql("$1::int")};
  TRY_VOID(run<SqlRows>(until, false, [&](Connection& c) {
    return c.query("end the wait", {end, {std::to_string(pid)}}, until);
  }));
  return {};
}

int Client::end_wait(SqlSession* s) {
  return s && s->under_way() && !s->broken() ? as_connection(*s).facts().pid : 0;
}

void Client::drop_waiting(std::unique_ptr<SqlSession> s, Deadline until) {
  while (const int pid = Clock::now() < until ? end_wait(s.get()) : 0) {
    const auto answer = s->receive({std::min(until, later(Clock::now(), wait_ends_within))});
    if (!answer || *answer || !ask_to_end(pid, until)) break;
  }
  drop(std::move(s));
}

Result<std::unique_ptr<SqlSession>> Client::open(const Duration* share) {
  return Connection::open(
      options_, options_.servers[server_],
      std::min(options_.connect_timeout, share ? *share : answers_of_login * options_.op_timeout));
}

Result<void> Client::prepare_session(SqlSession& s, bool any, Deadline) {
  if (any || !as_connection(s).facts().read_only) return {};
  return fail(Errc::unavailable,
              "{} is read-only (a standby, or made so): locks live "
              "on the server that writes",
              s.where());
}

void Client::give_back(std::unique_ptr<SqlSession> s) {
  if (!s) return;
  if (s->remedy() == Remedy::elsewhere) {
    next_server();
    idle_.clear();
    s->why_untrusted();
  }
  if (s->broken() || s->under_way() || !as_connection(*s).locks.empty() ||
      idle_.size() >= most_idle)
    return drop(std::move(s));
  std::erase(out_, s.get());
  idle_.push_back(std::move(s));
}

// Do not repeat a step that waited too long, because its time is used up. If the session broke, the
// step runs over another session.
bool Client::may_repeat(SqlSession& c, const Error& e, Deadline until, unsigned failures) {
  if (!retryable(e.code)) return false;
  if (!c.has_server_error() && !(c.used && Clock::now() < until)) return false;
  if (c.remedy() == Remedy::elsewhere && options_.servers.size() == 1) return false;
  return pause(pause_after(failures), until);
}

// Creates the tables in one transaction. Clients do this one after the other, because the server
// would refuse two at a time. If another schema has tables of dlock, make_tables() creates none:
// two users with different search_paths would not exclude each other, and nobody would notice.
Result<SqlRows> Client::make_tables(Connection& c, bool only_try, Deadline until) {
  const std::string_view undo =
      only_try ? "RAISE SQLSTATE 'DL000'; EXCEPTION WHEN SQLSTATE 'DL000' THEN NULL;" : "";
  const SqlStatement all{
      "",
      fmt::format("DO $dlock$ DECLARE other name; BEGIN "
                  "PERFORM pg_advisory_xact_lock(7236279150174207999); "
                  "SELECT relnamespace::regnamespace INTO other FROM pg_class WHERE "
                  "relname IN ('dlock_lock','dlock_advisory') AND relkind='r' ORDER BY "
                  "relnamespace::regnamespace::name<>current_schema() LIMIT 1; "
                  "IF other<>current_schema() THEN RAISE 'schema % has tables of dlock: it must "
                  "come first in the search_path of this account, or tables be made in schema %, "
                  "for locks of its own',other,current_schema(); END IF; BEGIN {}; {} END; END "
                  "$dlock$",
                  schema_, undo)};
  return c.query("create the tables", {all}, until);
}

Result<void> Client::create(SqlSession& s, Deadline until) {
  Connection& c = as_connection(s);
  const auto made = make_tables(c, false, until);
  if (made) return {};
  if (retryable(made.error().code) && (!c.has_server_error() || c.remedy() != Remedy::none))
    return fail(made.error());
  return fail(no_tables(made.error()));
}

}  // namespace dlock::postgresql
