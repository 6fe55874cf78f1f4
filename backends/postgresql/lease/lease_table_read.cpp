// SPDX-License-Identifier: Apache-2.0
// The texts of the statements that read a lock and the waiters ahead, or change data. A statement
// that changes data is atomic: its preconditions are in its WHERE clause.
#include <fmt/format.h>
#include "postgresql/lease/lease_table.hpp"

namespace dlock::postgresql {

std::string turned(std::string_view row, std::string_view number) {
  return fmt::format("((({}.tableoid::bigint&268435455)<<32)#{})", row, number);
}

namespace {

std::string lock_of_row(std::string_view row) { return turned(row, fmt::format("{}.ticket", row)); }

// A waiter is alive while its session has its ticket, or for the time that it announced. The check
// itself takes tickets, but only those of dead waiters, and only until the end of the statement.
std::string alive(std::string_view clock) {
  return fmt::format(
      "(CASE WHEN w.live=0 THEN NOT pg_try_advisory_xact_lock_shared({}) ELSE w.live>{} END)",
      lock_of_row("w"), clock);
}

// $1: name. $2: owner, or '' for a reading without a contender. $3: the ticket that the session
// has. $4: whether the session takes the ticket of the row. The ticket is always read from the row:
// if the row was deleted, we are not in the queue any more.
std::string load_in_sql(std::string_view clock, std::string_view alive) {
  return fmt::format(
      "SELECT l.version,l.fence,l.state,{0},l.updated,l.started,l.started_until,l.layout,l.revoked,"
      "l.last_run,{2},CASE WHEN $4::bool AND {2}<>$3::bigint THEN pg_try_advisory_lock({2}) END,"
      "CASE WHEN $2<>'' THEN (SELECT concat_ws(' ',{3},w.mode,w.owner,w.permits) FROM dlock_wait w "
      "WHERE w.name=l.name AND "
      "w.ticket<COALESCE(m.ticket,9223372036854775807) AND w.owner<>$2 AND {1} ORDER BY w.ticket "
      "DESC LIMIT 1) END FROM dlock_lock l LEFT JOIN dlock_wait m ON m.name=$1 AND m.owner=$2 "
      "WHERE "
      "l.name=$1",
      clock, alive, lock_of_row("m"), lock_of_row("w"));
}

// Whether the key is free does not depend on the clock here: `state` must be exactly what the last
// release wrote.
std::string take_in_sql(std::string_view clock) {
  return fmt::format(
      "UPDATE dlock_lock SET version=$8::bigint,fence={0},updated={0},state=$2||{0}||$3||{0}||' "
      "'||{0}"
      "||' '||({0}+$4::bigint)||$5 WHERE name=$1 AND state=$6 AND fence<{0} AND {0}<$7::bigint AND "
      "layout=1 AND NOT EXISTS(SELECT FROM dlock_wait w WHERE w.name=$1) RETURNING fence",
      clock);
}

std::string write_in_sql(std::string_view clock) {
  return fmt::format(
      "UPDATE dlock_lock SET "
      "version=$8::bigint,fence=$3::bigint,state=$4,updated={0},last_run=CASE "
      "WHEN $5='' OR left(last_run,20) COLLATE \"C\">=$5 THEN last_run ELSE $5||' '||{0}||$6 END "
      "WHERE name=$1 AND version=$2::bigint AND {0}<$7::bigint RETURNING version",
      clock);
}

// Writes the grant, and deletes three kinds of rows of the queue: the owner's row ($9), the rows of
// dead waiters before it, and the rows that were passed, up to the row with number $10.
std::string leave_in_sql(std::string_view clock, std::string_view alive) {
  return fmt::format(
      "WITH u AS ({0}), d AS (DELETE FROM dlock_wait w WHERE w.name=$1 AND EXISTS(SELECT FROM u) "
      "AND "
      "(w.ticket={1} OR w.ticket<=$10::bigint OR (w.ticket<{1} AND NOT {2}))) SELECT version FROM "
      "u",
      write_in_sql(clock), turned("w", "$9::bigint"), alive);
}

}  // namespace

LeaseTable::LeaseTable(Setup setup)
    : SqlLeaseTable(setup),
      alive_(alive(setup.clock)),
      load_{"dlock_load", load_in_sql(setup.clock, alive_)},
      take_{"dlock_take", take_in_sql(setup.clock)},
      write_{"dlock_swap", write_in_sql(setup.clock)},
      leave_{"dlock_leave", leave_in_sql(setup.clock, alive_)},
      join_{"dlock_join",
            fmt::format(
                "INSERT INTO dlock_wait AS w(name,owner,mode,permits,live,since,who) VALUES($1,"
                "$2,$3,$4::bigint,CASE WHEN $5::bool THEN 0 ELSE {0}+$6::bigint END,{0},$7)"
                " ON CONFLICT (name,owner) DO UPDATE SET live=excluded.live RETURNING "
                "{1},CASE WHEN $5::bool THEN pg_try_advisory_lock({1}) END",
                setup.clock, lock_of_row("w"))},
      statements_{
          .make_row = {"", fmt::format("INSERT INTO dlock_lock(name,version,fence,state,updated) "
                                       "VALUES($1,$3::bigint,0,$2,{0}) ON CONFLICT DO NOTHING",
                                       setup.clock)},
          .revoke = {"",
                     "UPDATE dlock_lock SET revoked=$3::bigint WHERE name=$1 AND "
                     "version=$2::bigint"},
          .start = {"",
                    "UPDATE dlock_lock SET started=NULLIF($3::bigint,0),"
                    "started_until=NULLIF($4::bigint,0),version=$5::bigint WHERE name=$1 AND "
                    "version=$2::bigint"},
          .stay = {"", fmt::format("UPDATE dlock_wait SET live={}+$3::bigint WHERE name=$1 AND "
                                   "owner=$2",
                                   setup.clock)},
          .leave = {"", "WITH d AS (DELETE FROM dlock_wait w WHERE w.name=$1 AND w.owner=$2) " +
                            end_waits_in_sql("$3::int")},
          .ahead = {"dlock_ahead",
                    fmt::format("SELECT count(*) FROM dlock_wait w JOIN dlock_wait m ON "
                                "m.name=w.name AND m.owner=$2 WHERE w.name=$1 AND "
                                "w.ticket<m.ticket AND {}",
                                alive_)},
          .all_ahead = {"dlock_all_ahead",
                        fmt::format("SELECT {},w.mode,w.owner,w.permits FROM dlock_wait w WHERE "
                                    "w.name=$1 AND w.ticket<{} AND w.owner<>$3 AND {} ORDER BY "
                                    "w.ticket",
                                    lock_of_row("w"), turned("w", "$2::bigint"), alive_)},
          .count_ahead = {"dlock_passed",
                          fmt::format("SELECT count(*),max(w.since),max(w.ticket) FROM dlock_wait "
                                      "w WHERE w.name=$1 AND w.ticket<{} AND {}",
                                      turned("w", "$2::bigint"), alive_)},
          .waiters = {"", fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits,w.who FROM "
                                      "dlock_wait w WHERE w.name=$1 AND {} ORDER BY w.ticket",
                                      alive_)},
          .keys = {"", "SELECT name FROM dlock_lock WHERE starts_with(name,$1)"}} {}

Call LeaseTable::load(const std::string& name, const Owner* me, const Connection& c,
                      bool lock) const {
  return {load_,
          {name, me ? me->hex() : "", std::to_string(c.locks.empty() ? 0 : *c.locks.begin()),
           lock && setup_.wakes ? "t" : "f"}};
}

Result<LeaseTable::Row> LeaseTable::finish_reading(Connection& c, const Attempt& a,
                                                   const SqlRows& r, Deadline sent,
                                                   Deadline until) {
  TRY(row, parse_row(r, c.where(), sent));
  if (!row.exists) return std::move(row);
  TRY_VOID(add_waiters(c, a, r, row, until));
  if (row.ticket && r.text(11) == "t") c.locks.insert(*row.ticket);
  return std::move(row);
}

// Before the session joins the queue, it releases the ticket that it still has, because the row of
// that ticket is gone.
Result<SqlLeaseRow> LeaseTable::read(SqlSession& s, Attempt& a, bool join, Deadline until) {
  Connection& c = as_connection(s);
  static const SqlStatement unlock{"dlock_unlock", "SELECT pg_advisory_unlock($1::bigint)"};
  std::vector<Call> calls;
  if (join) {
    for (const std::uint64_t ticket : c.locks) calls.push_back({unlock, {std::to_string(ticket)}});
    calls.push_back(
        {join_,
         {a.name, a.request.owner.hex(), std::string(1, static_cast<char>(a.request.mode)),
          std::to_string(a.request.limit), setup_.wakes ? "t" : "f",
          std::to_string(setup_.patience), a.request.meta.substr(0, 4096)}});
  }
  calls.push_back(load(a.name, &a.request.owner, c, !join));
  const Deadline sent = Clock::now();
  TRY(r, c.exchange(join ? "join the queue" : "read the lock", calls, until));
  if (join) {
    const SqlRows& joined = r[r.size() - 2];
    c.locks.clear();
    const auto ticket = joined.number<std::uint64_t>(0);
    if (ticket && joined.text(1) == "t") c.locks.insert(*ticket);
  }
  return finish_reading(c, a, r.back(), sent, until);
}

Result<void> LeaseTable::listen(SqlSession& s, Attempt& a, const std::string& ticket,
                                Duration wait) {
  Connection& c = as_connection(s);
  const SqlStatement sleep =
      wait_statement(fmt::format("pg_advisory_xact_lock_shared({})", ticket), wait);
  const Call calls[] = {{sleep}, {waited_statement}, load(a.name, &a.request.owner, c, true)};
  return c.send("wait", calls, later(Clock::now(), c.row_wait()));
}

Result<SqlQueueRow> LeaseTable::waited(SqlSession& s, Attempt& a, SqlAnswers answers, Deadline sent,
                                       Deadline until) {
  TRY(row, finish_reading(as_connection(s), a, answers[2], sent, until));
  count_wait(row, answers[1].number<Micros>(0));
  return SqlQueueRow{answers[1].has(0), std::move(row)};
}

Result<SqlLeaseRow> LeaseTable::read_row(SqlSession& s, const std::string& name, Deadline until) {
  Connection& c = as_connection(s);
  const Deadline sent = Clock::now();
  TRY(r, c.query("read the lock", load(name, nullptr, c, false), until));
  return parse_row(r, c.where(), sent);
}

}  // namespace dlock::postgresql
