// SPDX-License-Identifier: Apache-2.0
// Reads the stored state of a lock, and the waiters ahead in its queue.
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "common/record_reader.hpp"
#include "core/text.hpp"
#include "mysql/lease/lease_table.hpp"

namespace dlock::mysql {
namespace {

Error damaged(const Connection& c) {
  return {Errc::protocol,
          fmt::format("table dlock_lock at {}: a record is damaged or of another version",
                      c.at().text())};
}

// A row of dlock_wait, but for `who`; nullopt: damaged.
std::optional<LockState::Waiter> waiter_of(std::string_view mode, std::string_view owner,
                                           std::optional<std::uint64_t> ticket,
                                           std::optional<std::uint64_t> permits) {
  const auto as = parse_mode(mode);
  const auto who = Owner::parse(owner);
  if (!as || !who) return std::nullopt;
  LockState::Waiter w;
  w.owner = *who;
  w.mode = *as;
  w.ticket = ticket.value_or(0);
  w.limit = static_cast<unsigned>(permits.value_or(1));
  return w;
}

constexpr std::string_view marks = ",l.waiters,l.wake,@@global.read_only,l.layout,l.revoked";
constexpr std::size_t columns = 14;  // with those before the marks

}  // namespace

std::string hold_name(const Owner& o) { return "dl:" + o.hex(); }
std::string have_name(const std::string& name) {
  return fmt::format("IF(IS_USED_LOCK('{0}')=CONNECTION_ID(),1,GET_LOCK('{0}',0))", name);
}
std::string queue_name(const Owner& o, Mode mode) {
  return (mode == Mode::exclusive ? "dl:" : "dq:") + o.hex();
}

Result<Answer> all_of(Connection& c, std::string_view what, unsigned statements, Result<Answer> r) {
  if (!r || r->results == statements) return r;
  c.distrust();
  return fail(Errc::timed_out, fmt::format("{}: an answer is missing", what));
}

// A waiter is alive while its session has its name, or for its announced time. A name that this
// very session waited for and got proves nothing.
std::string LeaseTable::alive(std::string_view row) const {
  const std::string name =
      fmt::format("IS_USED_LOCK(CONCAT(IF({0}.mode='X','dl:','dq:'),{0}.owner))", row);
  const std::string by_time = fmt::format("{}.live>{}", row, setup_.clock);
  if (!setup_.named) return by_time;
  return fmt::format("IF({}.live=0,COALESCE({},CONNECTION_ID())<>CONNECTION_ID(),{})", row, name,
                     by_time);
}

Result<LeaseTable::Seen> LeaseTable::parse(const Connection& c, const Answer& r, Deadline sent) {
  Seen seen;
  seen.sent = sent;
  if (r.rows.empty()) return seen;
  if (r.text(12) != "1")
    return fail(Errc::usage,
                fmt::format("table dlock_lock at {}: a record has layout {}, and this dlock knows "
                            "layout 1 (a newer dlock wrote it: install that one on this host, too)",
                            c.at().text(), printable(r.text(12))));
  const auto version = r.unsigned_number(0), fence = r.unsigned_number(1);
  const auto now = r.number(3), updated = r.number(4);
  const auto revoked = r.unsigned_number(13);
  auto holders = decode(r.text(2));
  if (!version || !fence || !now || !updated || !holders || !revoked) return fail(damaged(c));
  seen.exists = true;
  seen.version = *version;
  seen.state.fence = *fence;
  seen.now = *now;
  seen.updated = *updated;
  if (const auto at = r.number(5), until = r.number(6); at && until && *until > *now)
    seen.start = {*at, *until};
  seen.ticket = r.unsigned_number(7);
  seen.queue = r.has(8);
  seen.marked = r.text(9) != "0";
  seen.wake = r.text(10);
  seen.revoked = *revoked;
  seen.read_only = r.text(11) != "0" && r.text(11) != "OFF";
  seen.state.holders = holders->list;
  seen.holders = std::move(*holders);
  return seen;
}

// On Galera each node judges by its own clock.
void LeaseTable::prolong(Seen& seen, const Owner& me) const {
  for (auto& h : seen.state.holders)
    if (h.owner != me) h.deadline = after(h.deadline, setup_.skew);
}
Holders LeaseTable::shortened(const Seen& seen, const LockState& s, const Owner& me) const {
  Holders out{seen.holders.key, s.holders, {}};
  for (auto& h : out.list) {
    if (h.owner != me) h.deadline -= setup_.skew;
    const auto granted = seen.holders.granted.find(h.owner);
    out.granted[h.owner] = granted == seen.holders.granted.end() ? h.since : granted->second;
  }
  return out;
}

// Those that show that this contender lives, and that its session does not have.
std::vector<std::string> LeaseTable::missing_names(const Connection& c, const Asking& a) const {
  if (!setup_.named) return {};
  std::vector<std::string> out{hold_name(a.ask.owner)};
  if (a.ask.mode != Mode::exclusive) out.push_back(queue_name(a.ask.owner, a.ask.mode));
  std::erase_if(out, [&](const std::string& name) {
    return std::find(c.names.begin(), c.names.end(), name) != c.names.end();
  });
  return out;
}

std::string LeaseTable::read_in_sql(const Connection& c, const Asking& a) const {
  const Owner& me = a.ask.owner;
  std::string sql = fmt::format(
      "SELECT l.version,l.fence,l.state,{},l.updated,l.started,l.started_until", setup_.clock);
  if (a.first) {  // is there a queue at all? A third of the cost of checking which waiters live
    sql += ",NULL,(SELECT MAX(w.ticket) FROM dlock_wait w WHERE w.name=l.name)";
  } else {
    // The ticket is read from our row, never remembered: a deleted row means that we do not wait
    // any more.
    const std::string mine = fmt::format(
        "(SELECT o.ticket FROM dlock_wait o WHERE o.name=l.name AND o.owner='{}')", me.hex());
    const std::string before = fmt::format(
        "(SELECT CONCAT(w.ticket,' ',w.mode,' ',w.owner,' ',w.permits) FROM dlock_wait w WHERE "
        "w.name=l.name AND w.ticket<COALESCE({},~0) AND w.owner<>'{}' AND {} ORDER BY w.ticket "
        "DESC LIMIT 1",
        mine, me.hex(), alive("w"));
    sql += fmt::format(",{},COALESCE({} OFFSET {}),{}))", mine, before,
                       std::max(a.distance, 1u) - 1, before);
  }
  sql += marks;
  for (const std::string& name : missing_names(c, a)) sql += "," + have_name(name);
  // Behind the check who lives: for that the name must still be ours.
  if (!a.give_up.empty()) sql += fmt::format(",RELEASE_LOCK('{}')", a.give_up);
  return sql + fmt::format(" FROM dlock_lock l WHERE l.name={}", hex(a.name));
}

Result<LeaseTable::Seen> LeaseTable::read(Connection& c, Asking& a, bool join, Deadline until) {
  const unsigned statements = !join ? 1 : missing_names(c, a).empty() ? 3 : 4;
  const std::string sql = (join ? join_in_sql(c, a) : "") + read_in_sql(c, a);
  const Deadline sent = Clock::now();
  TRY(r, all_of(c, "read the lock", statements, c.query("read the lock", sql, until)));
  return completed(c, a, r, sent, until);
}

Result<LeaseTable::Seen> LeaseTable::completed(Connection& c, Asking& a, const Answer& r,
                                               Deadline sent, Deadline until) {
  auto seen = parse(c, r, sent);
  if (!seen) return seen;
  if (!seen->exists) return seen;
  TRY_VOID(writable(c.at(), seen->read_only));
  a.give_up.clear();
  std::size_t at = columns;
  for (const std::string& name : missing_names(c, a))
    if (r.text(at++) == "1") c.names.push_back(name);
  const Owner& me = a.ask.owner;
  prolong(*seen, me);

  if (!a.first && seen->queue) {  // a living waiter that came first
    const std::string_view text = r.text(8);
    const auto space = text.find(' ');
    const std::string_view row = text.substr(std::min(space + 1, text.size()));
    // 1: a ticket below any other, as ours follows
    auto w = waiter_of(row.substr(0, 1), row.size() < 34 ? "" : row.substr(2, 32), 1, UINT_MAX);
    if (!w) return fail(damaged(c));
    // The row of a grant whose owner has not deleted it yet.
    if (!seen->state.holder(w->owner, seen->now)) seen->state.waiters.push_back(std::move(*w));
    // A waiter that is not exclusive may run together with those ahead: then all of them count.
    if (a.ask.mode != Mode::exclusive) TRY_VOID(read_all_ahead(c, a, *seen, until));
  }
  if (seen->ticket) {
    LockState::Waiter w;
    w.owner = me;
    w.mode = a.ask.mode;
    w.limit = a.ask.limit;
    w.ticket = *seen->ticket;
    w.meta = a.ask.meta;
    seen->state.waiters.push_back(std::move(w));
  }
  return seen;
}

Result<void> LeaseTable::listen(Connection& c, Asking& a, const std::string& lock, Duration wait) {
  const double seconds = std::max(0.001, std::chrono::duration<double>(wait).count());
  a.give_up = lock;
  return c.send("wait", fmt::format("SELECT {},GET_LOCK('{}',{:.3f});{}", setup_.clock, lock,
                                    seconds, read_in_sql(c, a)));
}

// A lease must not count from before the wait, which would be over soon, nor from the arrival of
// the answer, which may be late: the server says how long the wait was. If its clock was set
// meanwhile, that is not known, and the key is read anew.
Result<LeaseTable::Heard> LeaseTable::heard(Connection& c, Asking& a, Answer r, Deadline sent,
                                            Deadline until) {
  TRY(complete, all_of(c, "wait", 2, std::move(r)));
  if (complete.rows.empty()) return fail(malformed_reply("wait", c.at().text()));
  const auto began = complete.number(0);
  const bool obtained = complete.text(1) == "1";
  complete.rows.erase(complete.rows.begin());
  const Deadline arrived = Clock::now();
  TRY(seen, completed(c, a, complete, sent, until));
  if (!seen.exists) return Heard{obtained, std::move(seen)};
  const Duration waited{seen.now - began.value_or(seen.now + 1)};
  if (waited < Duration{} || later(sent, waited) > arrived) {
    TRY(again, read(c, a, false, until));
    return Heard{obtained, std::move(again)};
  }
  seen.sent = std::max(sent, later(sent, waited - drift(waited)));
  return Heard{obtained, std::move(seen)};
}

// Read after the holders: one of those ahead may be granted in between, and then the version has
// moved.
Result<void> LeaseTable::read_all_ahead(Connection& c, const Asking& a, Seen& seen,
                                        Deadline until) {
  TRY(r, c.query("read the queue",
                 fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE "
                             "w.name={}{} AND w.owner<>'{}' AND {} ORDER BY w.ticket",
                             hex(a.name),
                             seen.ticket ? fmt::format(" AND w.ticket<{}", *seen.ticket) : "",
                             a.ask.owner.hex(), alive("w")),
                 until));
  seen.state.waiters.clear();
  for (std::size_t i = 0; i < r.rows.size(); ++i) {
    auto w =
        waiter_of(r.text(1, i), r.text(2, i), r.unsigned_number(0, i), r.unsigned_number(3, i));
    if (!w) return fail(damaged(c));
    if (!seen.state.holder(w->owner, seen.now)) seen.state.waiters.push_back(std::move(*w));
  }
  return {};
}

// A waiter whose process is stopped keeps its session, so its name. If there has been room long
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
  if (!setup_.named || !seen.ticket || !any_ahead ||
      !std::all_of(waiters.begin(), waiters.end(), fits))
    return false;
  Micros free_since = seen.updated;
  for (const auto& h : seen.state.holders)
    if (h.free_at() <= seen.now) free_since = std::max(free_since, h.free_at());
  if (before && before->fence == seen.state.fence) free_since = std::min(free_since, before->since);
  a.room = {seen.state.fence, free_since};
  if (seen.now - free_since <= setup_.claim) return false;
  TRY(r, c.query("read the queue",
                 fmt::format("SELECT COUNT(*),MAX(w.since) FROM dlock_wait w WHERE w.name={} AND "
                             "w.ticket<{} AND {}",
                             hex(a.name), *seen.ticket, alive("w")),
                 until));
  const auto count = r.number(0);
  // a head that has only just come was not slow
  free_since = std::max(free_since, r.number(1).value_or(0));
  if (!count || seen.now - free_since <= *count * setup_.claim) return false;
  std::erase_if(seen.state.waiters, [&](const auto& w) { return w.owner != a.ask.owner; });
  return true;
}

Result<LeaseTable::Seen> LeaseTable::look(Connection& c, const std::string& name, Deadline until) {
  const Deadline sent = Clock::now();
  TRY(r,
      c.query(
          "read the lock",
          fmt::format(
              "SELECT l.version,l.fence,l.state,{},l.updated,l.started,l.started_until,NULL,NULL{} "
              "FROM dlock_lock l WHERE l.name={}",
              setup_.clock, marks, hex(name)),
          until));
  return parse(c, r, sent);
}

// ---- for people --------------------------------------------------------------------------------

Result<std::size_t> LeaseTable::ahead(Connection& c, const std::string& name, const Owner& me,
                                      Deadline until) {
  TRY(r, c.query("read the queue",
                 fmt::format("SELECT COUNT(*) FROM dlock_wait w JOIN dlock_wait m ON m.name=w.name "
                             "AND m.owner='{}' WHERE w.name={} AND w.ticket<m.ticket AND {}",
                             me.hex(), hex(name), alive("w")),
                 until));
  return static_cast<std::size_t>(r.number(0).value_or(0));
}

Result<std::vector<LockState::Waiter>> LeaseTable::waiters(Connection& c, const std::string& name,
                                                           Deadline until) {
  // Our own session's names count here: an inspecting session does not wait.
  const std::string here = setup_.named ? fmt::format(
                                              "IF(w.live=0,IS_USED_LOCK(CONCAT(IF(w.mode='X','dl:',"
                                              "'dq:'),w.owner)) IS NOT NULL,w.live>{})",
                                              setup_.clock)
                                        : fmt::format("w.live>{}", setup_.clock);
  TRY(r, c.query("read the queue",
                 fmt::format("SELECT w.owner,w.mode,w.ticket,w.permits,w.who FROM dlock_wait w "
                             "WHERE w.name={} AND {} ORDER BY w.ticket",
                             hex(name), here),
                 until));
  std::vector<LockState::Waiter> out;
  for (std::size_t i = 0; i < r.rows.size(); ++i) {
    auto w =
        waiter_of(r.text(1, i), r.text(0, i), r.unsigned_number(2, i), r.unsigned_number(3, i));
    if (!w) continue;
    w->meta = r.text(4, i);
    out.push_back(std::move(*w));
  }
  return out;
}

Result<std::optional<LastRun>> LeaseTable::last_run(Connection& c, const std::string& name,
                                                    Deadline until) {
  TRY(r, c.query("read the last run",
                 fmt::format("SELECT last_run FROM dlock_lock WHERE name={}", hex(name)), until));
  return r.rows.empty() ? std::nullopt : LastRun::parse(r.text(0), ' ');
}

Result<Answer> LeaseTable::keys(Connection& c, const std::string& prefix, Deadline until) {
  return c.query(
      "list the locks",
      fmt::format("SELECT name FROM dlock_lock WHERE LEFT(name,{})={}", prefix.size(), hex(prefix)),
      until);
}

}  // namespace dlock::mysql
