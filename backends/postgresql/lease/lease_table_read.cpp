// SPDX-License-Identifier: Apache-2.0
// The statements; and what is read: the stored state of a lock, and the waiters ahead in its queue.
// Each statement that changes data is atomic: its preconditions are in its WHERE clause.
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"
#include "postgresql/lease/lease_table.hpp"

namespace dlock::postgresql {
namespace {

// A waiter lives while its session has its ticket, or for its announced time. To ask takes no lock
// of one that lives, and of a dead one only until the end of this statement.
std::string alive(std::string_view clock) {
  return fmt::format(
      "(CASE WHEN w.live=0 THEN NOT pg_try_advisory_xact_lock_shared(w.ticket) ELSE w.live>{} END)",
      clock);
}

// $1 name, $2 owner, or '' for nobody's reading; $3 the ticket that the session has; $4 whether it
// takes that of the row. The ticket is read from the row, never remembered: a deleted row means
// that we do not wait any more.
std::string load_in_sql(std::string_view clock, std::string_view alive) {
  return fmt::format(
      "SELECT l.version,l.fence,l.state,{0},l.updated,l.started,l.started_until,l.layout,l.revoked,"
      "l.last_run,m.ticket,CASE WHEN $4::bool AND m.ticket<>$3::bigint THEN "
      "pg_try_advisory_lock(m.ticket) END,CASE WHEN $2<>'' THEN (SELECT "
      "concat_ws(' ',w.ticket,w.mode,w.owner,w.permits) FROM dlock_wait w WHERE w.name=l.name AND "
      "w.ticket<COALESCE(m.ticket,9223372036854775807) AND w.owner<>$2 AND {1} ORDER BY w.ticket "
      "DESC LIMIT 1) END FROM dlock_lock l LEFT JOIN dlock_wait m ON m.name=$1 AND m.owner=$2 "
      "WHERE "
      "l.name=$1",
      clock, alive);
}

// No decision here depends on the clock: a free key is exactly what the last release wrote.
std::string take_in_sql(std::string_view clock) {
  return fmt::format(
      "UPDATE dlock_lock SET version=version+1,fence={0},updated={0},state=$2||{0}||$3||{0}||' "
      "'||{0}"
      "||' '||({0}+$4::bigint)||$5 WHERE name=$1 AND state=$6 AND fence<{0} AND {0}<$7::bigint AND "
      "layout=1 AND NOT EXISTS(SELECT FROM dlock_wait w WHERE w.name=$1) RETURNING version,fence",
      clock);
}

std::string swap_in_sql(std::string_view clock) {
  return fmt::format(
      "UPDATE dlock_lock SET version=version+1,fence=$3::bigint,state=$4,updated={0},last_run=CASE "
      "WHEN $5='' OR left(last_run,20) COLLATE \"C\">=$5 THEN last_run ELSE $5||' '||{0}||$6 END "
      "WHERE name=$1 AND version=$2::bigint AND {0}<$7::bigint RETURNING version",
      clock);
}

// The row of the grant goes, those of the dead before it, and those that were passed.
std::string leave_in_sql(std::string_view clock, std::string_view alive) {
  return fmt::format(
      "WITH u AS ({}), d AS (DELETE FROM dlock_wait w WHERE w.name=$1 AND EXISTS(SELECT FROM u) "
      "AND "
      "(w.ticket=$8::bigint OR (w.ticket<$8::bigint AND ($9::bool OR NOT {})))) SELECT version "
      "FROM u",
      swap_in_sql(clock), alive);
}

std::optional<LockState::Waiter> waiter_of(std::string_view ticket, std::string_view mode,
                                           std::string_view owner, std::string_view permits) {
  const auto number = parse_number<std::uint64_t>(ticket);
  const auto m = parse_mode(mode);
  const auto o = Owner::parse(owner);
  const auto limit = parse_number<unsigned>(permits);
  if (!number || !m || !o || !limit) return std::nullopt;
  LockState::Waiter w;
  w.ticket = *number;
  w.mode = *m;
  w.owner = *o;
  w.limit = *limit;
  return w;
}

Error damaged(const Connection& c) {
  return {Errc::protocol,
          fmt::format("table dlock_lock at {}: a record is damaged or of another version",
                      c.at().text())};
}

}  // namespace

LeaseTable::LeaseTable(Setup setup)
    : setup_(setup),
      alive_(alive(setup.clock)),
      load_{"dlock_load", load_in_sql(setup.clock, alive_)},
      take_{"dlock_take", take_in_sql(setup.clock)},
      swap_{"dlock_swap", swap_in_sql(setup.clock)},
      leave_{"dlock_leave", leave_in_sql(setup.clock, alive_)},
      make_row_{"", fmt::format("INSERT INTO dlock_lock(name,version,fence,state,updated) "
                                "VALUES($1,{0},0,$2,{0}) ON CONFLICT DO NOTHING",
                                setup.clock)},
      join_{"dlock_join",
            fmt::format("INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) VALUES($1,"
                        "$2,$3,$4::bigint,CASE WHEN $5::bool THEN 0 ELSE {0}+$6::bigint END,{0},$7)"
                        " ON CONFLICT (name,owner) DO UPDATE SET live=excluded.live RETURNING "
                        "ticket,CASE WHEN $5::bool THEN pg_try_advisory_lock(ticket) END",
                        setup.clock)},
      listen_{"dlock_listen", fmt::format("SELECT {},set_config('lock_timeout',$2,true),"
                                          "pg_advisory_xact_lock_shared($1::bigint)",
                                          setup.clock)},
      all_ahead_{"dlock_all_ahead",
                 fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE "
                             "w.name=$1 AND w.ticket<$2::bigint AND w.owner<>$3 AND {} ORDER BY "
                             "w.ticket",
                             alive_)},
      passed_{"dlock_passed",
              fmt::format("SELECT count(*),max(w.since) FROM dlock_wait w WHERE w.name=$1 AND "
                          "w.ticket<$2::bigint AND {}",
                          alive_)},
      ahead_{"dlock_ahead",
             fmt::format("SELECT count(*) FROM dlock_wait w JOIN dlock_wait m ON m.name=w.name AND "
                         "m.owner=$2 WHERE w.name=$1 AND w.ticket<m.ticket AND {}",
                         alive_)},
      waiters_{"", fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits,w.who FROM dlock_wait w "
                               "WHERE w.name=$1 AND {} ORDER BY w.ticket",
                               alive_)},
      say_alive_{"", fmt::format("UPDATE dlock_wait SET live={}+$3::bigint WHERE name=$1 AND "
                                 "owner=$2",
                                 setup.clock)},
      cancel_{
          "",
          "WITH d AS (DELETE FROM dlock_wait WHERE name=$1 AND owner=$2 RETURNING ticket) SELECT "
          "pg_terminate_backend(l.pid) FROM d JOIN pg_locks l ON l.locktype='advisory' AND "
          "l.pid=$3::int AND l.granted AND l.objsubid=1 AND "
          "((l.classid::bigint<<32)|l.objid::bigint)=d.ticket WHERE $3::int>0"} {}

Call LeaseTable::load(const std::string& name, const Owner* me, const Connection& c,
                      bool lock) const {
  return {load_,
          {name, me ? me->hex() : "", std::to_string(c.locks.empty() ? 0 : *c.locks.begin()),
           lock && setup_.wakes ? "t" : "f"}};
}

Result<LeaseTable::Seen> LeaseTable::parse(const Connection& c, const Rows& r, Deadline sent,
                                           const LockState::Ask* ask) const {
  Seen seen;
  seen.sent = sent;
  if (r.rows.empty()) return seen;
  if (r.text(7) != "1")
    return fail(Errc::usage,
                fmt::format("table dlock_lock at {}: a record has layout {}, and this dlock knows "
                            "layout 1 (a newer dlock wrote it: install that one on this host, too)",
                            c.at().text(), printable(r.text(7))));
  const auto version = r.number<std::uint64_t>(0), fence = r.number<std::uint64_t>(1);
  const auto now = r.number<Micros>(3), updated = r.number<Micros>(4);
  const auto revoked = r.number<std::uint64_t>(8);
  auto holders = decode(r.text(2));
  if (!version || !fence || !now || !updated || !holders || !revoked) return fail(damaged(c));
  seen.exists = true;
  seen.version = *version;
  seen.state.fence = *fence;
  seen.now = *now;
  seen.updated = *updated;
  if (const auto at = r.number<Micros>(5), until = r.number<Micros>(6);
      at && until && *until > *now)
    seen.start = {*at, *until};
  seen.revoked = *revoked;
  seen.last_run = LastRun::parse(r.text(9), ' ');
  seen.ticket = r.number<std::uint64_t>(10);
  seen.state.holders = holders->list;
  seen.holders = std::move(*holders);
  if (!ask) return seen;
  if (std::string_view rest = r.text(12); !rest.empty()) {  // a living waiter that came first
    const auto ticket = take_word(rest, ' '), mode = take_word(rest, ' '),
               owner = take_word(rest, ' ');
    auto w = waiter_of(ticket, mode, owner, rest);
    if (!w) return fail(damaged(c));
    if (!seen.state.holder(w->owner, seen.now)) seen.state.waiters.push_back(std::move(*w));
  }
  return seen;
}

// What a contender needs besides: its own place, and all those ahead, if it is not exclusive: it
// may run together with them. They are read after the holders: one of those ahead may be granted in
// between, and then the version has moved.
Result<LeaseTable::Seen> LeaseTable::completed(Connection& c, const Asking& a, Seen seen,
                                               Deadline until) {
  if (!seen.exists) return seen;
  auto& waiters = seen.state.waiters;
  if (a.ask.mode != Mode::exclusive && !waiters.empty()) {
    TRY(r, c.query("read the queue",
                   {all_ahead_,
                    {a.name, std::to_string(seen.ticket.value_or(INT64_MAX)), a.ask.owner.hex()}},
                   until));
    waiters.clear();
    for (std::size_t i = 0; i < r.rows.size(); ++i) {
      auto w = waiter_of(r.text(0, i), r.text(1, i), r.text(2, i), r.text(3, i));
      if (!w) return fail(damaged(c));
      if (!seen.state.holder(w->owner, seen.now)) waiters.push_back(std::move(*w));
    }
  }
  if (seen.ticket) {
    LockState::Waiter w;
    w.owner = a.ask.owner;
    w.mode = a.ask.mode;
    w.limit = a.ask.limit;
    w.ticket = *seen.ticket;
    w.meta = a.ask.meta;
    waiters.push_back(std::move(w));
  }
  return seen;
}

Result<LeaseTable::Seen> LeaseTable::read(Connection& c, const Asking& a, Deadline until) {
  const Deadline sent = Clock::now();
  TRY(r, c.query("read the lock", load(a.name, &a.ask.owner, c, true), until));
  TRY(seen, parse(c, r, sent, &a.ask));
  if (seen.ticket && r.text(11) == "t") c.locks.insert(*seen.ticket);
  return completed(c, a, std::move(seen), until);
}

// A ticket of a row that is gone is ended first.
Result<LeaseTable::Seen> LeaseTable::join(Connection& c, const Asking& a, Deadline until) {
  static const Statement unlock{"dlock_unlock", "SELECT pg_advisory_unlock($1::bigint)"};
  std::vector<Call> calls;
  for (const std::uint64_t ticket : c.locks) calls.push_back({unlock, {std::to_string(ticket)}});
  const std::size_t at = calls.size();
  calls.push_back({join_,
                   {a.name, a.ask.owner.hex(), std::string(1, static_cast<char>(a.ask.mode)),
                    std::to_string(a.ask.limit), setup_.wakes ? "t" : "f",
                    std::to_string(setup_.patience), a.ask.meta.substr(0, 4096)}});
  calls.push_back(load(a.name, &a.ask.owner, c, false));
  const Deadline sent = Clock::now();
  TRY(r, c.exchange("join the queue", calls, until));
  c.locks.clear();
  const auto ticket = r[at].number<std::uint64_t>(0);
  if (ticket && r[at].text(1) == "t") c.locks.insert(*ticket);
  TRY(seen, parse(c, r[at + 1], sent, &a.ask));
  return completed(c, a, std::move(seen), until);
}

Result<void> LeaseTable::listen(Connection& c, const Asking& a, std::uint64_t ticket,
                                Duration wait) {
  const auto ms = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(wait).count());
  const Call calls[] = {{listen_, {std::to_string(ticket), std::to_string(ms)}, true},
                        load(a.name, &a.ask.owner, c, true)};
  return c.send("wait", calls, later(Clock::now(), c.row_wait()));
}

// A lease must not count from before the wait, which would be over soon, nor from the arrival of
// the answer, which may be late: the server says how long the wait was. If its clock was set
// forward meanwhile, the arrival bounds it.
Result<LeaseTable::Seen> LeaseTable::heard(Connection& c, const Asking& a, const Answers& answers,
                                           Deadline sent, Deadline until) {
  TRY(seen, parse(c, answers[1], sent, &a.ask));
  seen.old = answers[0].rows.empty();  // its time was over
  if (const auto began = answers[0].number<Micros>(0); began && seen.now > *began) {
    const Duration waited{seen.now - *began};
    seen.sent = std::min(Clock::now(), std::max(sent, later(sent, waited - drift(waited))));
  }
  if (seen.ticket && answers[1].text(11) == "t") c.locks.insert(*seen.ticket);
  return completed(c, a, std::move(seen), until);
}

// A waiter whose process is stopped keeps its session, so its ticket. If there has been room long
// enough for all waiters ahead to claim it, they lose their turn. Room means: none of them has to
// wait for a holder, and neither do we; "no conflict for me" would let readers pass a writer. Until
// the next grant it only grows: it counts from when it was seen first, although holders renew.
// True: they were passed.
Result<bool> LeaseTable::pass_the_frozen(Connection& c, Asking& a, Seen& seen, Deadline until) {
  const auto& waiters = seen.state.waiters;
  const bool any_ahead = std::any_of(waiters.begin(), waiters.end(),
                                     [&](const auto& w) { return w.owner != a.ask.owner; });
  const auto fits = [&](const LockState::Waiter& w) {
    LockState s{.holders = seen.state.holders};
    const LockState::Ask ask{.owner = w.owner, .mode = w.mode, .limit = w.limit, .wait = false};
    return std::holds_alternative<LockState::Granted>(s.acquire(ask, seen.now));
  };
  const auto before = std::exchange(a.room, std::nullopt);
  if (!seen.ticket || !any_ahead || !std::all_of(waiters.begin(), waiters.end(), fits))
    return false;
  Micros free_since = seen.updated;
  for (const auto& h : seen.state.holders)
    if (h.free_at() <= seen.now) free_since = std::max(free_since, h.free_at());
  if (before && before->fence == seen.state.fence) free_since = std::min(free_since, before->since);
  a.room = {seen.state.fence, free_since};
  if (seen.now - free_since <= setup_.claim) return false;
  TRY(r, c.query("read the queue", {passed_, {a.name, std::to_string(*seen.ticket)}}, until));
  const auto count = r.number<Micros>(0);
  // a head that has only just come was not slow
  free_since = std::max(free_since, r.number<Micros>(1).value_or(0));
  if (!count || seen.now - free_since <= *count * setup_.claim) return false;
  std::erase_if(seen.state.waiters, [&](const auto& w) { return w.owner != a.ask.owner; });
  return true;
}

Result<LeaseTable::Seen> LeaseTable::look(Connection& c, const std::string& name, Deadline until) {
  const Deadline sent = Clock::now();
  TRY(r, c.query("read the lock", load(name, nullptr, c, false), until));
  return parse(c, r, sent, nullptr);
}

// ---- for people --------------------------------------------------------------------------------

Result<std::size_t> LeaseTable::ahead(Connection& c, const std::string& name, const Owner& me,
                                      Deadline until) {
  TRY(r, c.query("read the queue", {ahead_, {name, me.hex()}}, until));
  return r.number<std::size_t>(0).value_or(0);
}

Result<std::vector<LockState::Waiter>> LeaseTable::waiters(Connection& c, const std::string& name,
                                                           Deadline until) {
  TRY(r, c.query("read the queue", {waiters_, {name}}, until));
  std::vector<LockState::Waiter> out;
  for (std::size_t i = 0; i < r.rows.size(); ++i) {
    auto w = waiter_of(r.text(0, i), r.text(1, i), r.text(2, i), r.text(3, i));
    if (!w) continue;
    w->meta = r.text(4, i);
    out.push_back(std::move(*w));
  }
  return out;
}

Result<void> LeaseTable::say_alive(Connection& c, const std::string& name, const Owner& me,
                                   Deadline until) {
  TRY_VOID(c.query("stay in the queue",
                   {say_alive_, {name, me.hex(), std::to_string(setup_.patience)}}, until));
  return {};
}

Result<Rows> LeaseTable::keys(Connection& c, const std::string& prefix, Deadline until) {
  static const Statement keys{"", "SELECT name FROM dlock_lock WHERE starts_with(name,$1)"};
  return c.query("list the locks", {keys, {prefix}}, until);
}

Result<void> LeaseTable::erase(Connection& c, const std::string& name, Deadline until) {
  static const Statement waiters{"", "DELETE FROM dlock_wait WHERE name=$1"};
  static const Statement lock{"", "DELETE FROM dlock_lock WHERE name=$1"};
  const Call calls[] = {{waiters, {name}}, {lock, {name}}};
  TRY_VOID(c.exchange("remove", calls, until));
  return {};
}

}  // namespace dlock::postgresql
