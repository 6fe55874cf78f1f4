// SPDX-License-Identifier: Apache-2.0
// Reads the stored state of a lock, and the waiters ahead in its queue.
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "mysql/lease/lease_table.hpp"

namespace dlock::mysql {
namespace {

std::string columns(std::string_view clock) {
  return fmt::format(
      "SELECT l.version,l.fence,l.state,{},l.updated,l.started,l.started_until,l.layout,l.revoked,"
      "l.last_run",
      clock);
}
constexpr std::size_t usual_columns = 16;  // before those of names

std::string queue_name(const Owner& o, Mode mode) {
  return (mode == Mode::exclusive ? "dl:" : "dq:") + o.hex();
}
// an SQL expression: takes it, once, and returns 1 if this session has it
std::string have_name(const std::string& name) {
  return fmt::format("IF(IS_USED_LOCK('{0}')=CONNECTION_ID(),1,GET_LOCK('{0}',0))", name);
}
bool is_on(std::string_view variable) { return variable != "0" && variable != "OFF"; }

}  // namespace

Result<Answer> all_of(Connection& c, std::string_view what, unsigned statements, Result<Answer> r) {
  if (!r || r->results == statements) return r;
  c.distrust();
  return fail(Errc::timed_out, fmt::format("{}: an answer is missing", what));
}

std::string hold_name(const Owner& o) { return "dl:" + o.hex(); }

std::string LeaseTable::lock_of(const LockState::Waiter& w) const {
  return queue_name(w.owner, w.mode);
}
std::string LeaseTable::lock_of(const LockState::Holder& h, const Row& row) const {
  return row.wake.empty() || h.mode != Mode::exclusive ? hold_name(h.owner) : row.wake;
}

// A waiter is alive while its session has its name, or for its announced time. A name that this
// very session waited for and got proves nothing.
std::string LeaseTable::alive(std::string_view row) const {
  const std::string name =
      fmt::format("IS_USED_LOCK(CONCAT(IF({0}.mode='X','dl:','dq:'),{0}.owner))", row);
  const std::string by_time = fmt::format("{}.live>{}", row, setup_.clock);
  if (!setup_.wakes) return by_time;
  return fmt::format("IF({}.live=0,COALESCE({},CONNECTION_ID())<>CONNECTION_ID(),{})", row, name,
                     by_time);
}

// Those that show that this contender lives, and that its session does not have.
std::vector<std::string> LeaseTable::missing_names(const Connection& c, const Attempt& a) const {
  if (!setup_.wakes) return {};
  std::vector<std::string> out{hold_name(a.request.owner)};
  if (a.request.mode != Mode::exclusive) out.push_back(queue_name(a.request.owner, a.request.mode));
  std::erase_if(out, [&](const std::string& name) {
    return std::find(c.names.begin(), c.names.end(), name) != c.names.end();
  });
  return out;
}

std::string LeaseTable::read_in_sql(const Connection& c, const Attempt& a) const {
  const Owner& me = a.request.owner;
  std::string sql = columns(setup_.clock);
  if (a.first) {  // is there a queue at all? A third of the cost of checking which waiters live
    sql += ",NULL,l.waiters,NULL,(SELECT MAX(w.ticket) FROM dlock_wait w WHERE w.name=l.name)";
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
    sql += fmt::format(",{},l.waiters,COALESCE({} OFFSET {}),{})),NULL", mine, before,
                       std::max(a.distance, 1u) - 1, before);
  }
  sql += ",l.wake,@@global.read_only";
  for (const std::string& name : missing_names(c, a)) sql += "," + have_name(name);
  // Behind the check who lives: for that the name must still be ours.
  if (!a.give_up.empty()) sql += fmt::format(",RELEASE_LOCK('{}')", a.give_up);
  return sql + fmt::format(" FROM dlock_lock l WHERE l.name={}", hex(a.name));
}

// The names first: a row whose name is free belongs to a dead waiter. The mark last: for its
// purpose see lease_table.hpp.
std::string LeaseTable::join_in_sql(const Connection& c, const Attempt& a) const {
  const std::string live = setup_.wakes ? "0" : fmt::format("{}+{}", setup_.clock, setup_.patience);
  std::string names;
  for (const std::string& name : missing_names(c, a))  // if obtained shows in the read
    names += (names.empty() ? "DO " : ",") + have_name(name);
  if (!names.empty()) names += ";";
  return fmt::format(
      "{}INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) "
      "VALUES({},'{}','{}',{},{},{},{}) ON DUPLICATE KEY UPDATE live=VALUES(live);UPDATE "
      "dlock_lock SET waiters=1 WHERE name={} AND waiters=0;",
      names, hex(a.name), a.request.owner.hex(), static_cast<char>(a.request.mode), a.request.limit,
      live, setup_.clock, hex(a.request.meta.substr(0, 4096)), hex(a.name));
}

Result<LeaseTable::Read> LeaseTable::read_once(Connection& c, Attempt& a, bool join,
                                               Deadline until) {
  if (join) a.first = false;
  const unsigned statements = !join ? 1 : missing_names(c, a).empty() ? 3 : 4;
  const std::string sql = (join ? join_in_sql(c, a) : "") + read_in_sql(c, a);
  const Deadline sent = Clock::now();
  TRY(r, all_of(c, "read the lock", statements, c.query("read the lock", sql, until)));
  return completed(c, a, r, sent, until);
}

Result<LeaseTable::Read> LeaseTable::completed(Connection& c, Attempt& a, const Answer& r,
                                               Deadline sent, Deadline until) {
  TRY(row, parse_row(r, c.at().text(), sent));
  if (!row.exists) return Read{std::move(row)};
  row.wake = r.text(14);
  row.read_only = is_on(r.text(15));
  TRY_VOID(writable(c.at().text(), row.read_only));
  a.give_up.clear();
  std::size_t at = usual_columns;
  for (const std::string& name : missing_names(c, a))
    if (r.text(at++) == "1") c.names.push_back(name);
  TRY_VOID(add_waiters(c, a, r, row, until));
  return Read{std::move(row), r.has(12) || r.has(13), r.text(11) != "0"};
}

Result<LeaseTable::Row> LeaseTable::read(Connection& c, Attempt& a, bool join, Deadline until) {
  TRY(one, read_once(c, a, join, until));
  Row& row = one.row;
  if (!row.exists) return std::move(row);
  if (row.state.holder(a.request.owner, row.now)) {  // of an earlier request
    a.first = false;
    if (row.ticket || one.queue) (void)leave_queue(c, a.name, a.request.owner, row.ticket, until);
    return std::move(row);
  }
  const bool again = std::exchange(a.first, false) && one.queue;
  // never, unless another writer changed it (lease_table.hpp, 4.)
  const bool unmarked = row.ticket && !one.marked;
  if (!again && !unmarked) return std::move(row);
  if (unmarked)
    TRY_VOID(c.query(
        "join the queue",
        fmt::format("UPDATE dlock_lock SET waiters=1 WHERE name={} AND waiters=0", hex(a.name)),
        until));
  TRY(whole, read_once(c, a, again && a.request.wait, until));
  return std::move(whole.row);
}

Result<void> LeaseTable::listen(Connection& c, Attempt& a, const std::string& lock, Duration wait) {
  const double seconds = std::max(0.001, std::chrono::duration<double>(wait).count());
  a.give_up = lock;
  return c.send("wait", fmt::format("SELECT {},GET_LOCK('{}',{:.3f});{}", setup_.clock, lock,
                                    seconds, read_in_sql(c, a)));
}

Result<LeaseTable::Waited> LeaseTable::waited(Connection& c, Attempt& a, Answer r, Deadline sent,
                                              Deadline until) {
  TRY(both, all_of(c, "wait", 2, std::move(r)));
  if (both.rows.empty()) return fail(malformed_reply("wait", c.at().text()));
  a.distance = Attempt{}.distance;
  const bool obtained = both.text(1) == "1";
  const auto began = both.number(0);
  both.rows.erase(both.rows.begin());
  TRY(one, completed(c, a, both, sent, until));
  if (one.row.ticket && !one.marked) {
    TRY(again, read(c, a, false, until));
    return Waited{obtained, std::move(again)};
  }
  count_wait(one.row, began);
  return Waited{obtained, std::move(one.row)};
}

bool LeaseTable::may_wait_further(const Connection& c, Attempt& a) {
  if (c.remedy() != Remedy::later) return false;
  a.distance = std::min(a.distance * 2, 1024u);
  return true;
}

Result<LeaseTable::Row> LeaseTable::read_row(Connection& c, const std::string& name,
                                             Deadline until) {
  const Deadline sent = Clock::now();
  TRY(r, c.query("read the lock",
                 fmt::format("{},@@global.read_only FROM dlock_lock l WHERE l.name={}",
                             columns(setup_.clock), hex(name)),
                 until));
  TRY(row, parse_row(r, c.at().text(), sent));
  row.read_only = row.exists && is_on(r.text(10));
  return std::move(row);
}

Result<Answer> LeaseTable::all_ahead(Connection& c, const Attempt& a, const Row& row,
                                     Deadline until) {
  return c.query(
      "read the queue",
      fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE "
                  "w.name={}{} AND w.owner<>'{}' AND {} ORDER BY w.ticket",
                  hex(a.name), row.ticket ? fmt::format(" AND w.ticket<{}", *row.ticket) : "",
                  a.request.owner.hex(), alive("w")),
      until);
}

Result<std::optional<Answer>> LeaseTable::count_ahead(Connection& c, const Attempt& a,
                                                      const Row& row, Deadline until) {
  if (!setup_.wakes) return std::nullopt;
  TRY(r, c.query("read the queue",
                 fmt::format("SELECT COUNT(*),MAX(w.since),MAX(w.ticket) FROM dlock_wait w WHERE "
                             "w.name={} AND w.ticket<{} AND {}",
                             hex(a.name), row.ticket.value_or(INT64_MAX), alive("w")),
                 until));
  return std::move(r);
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
  const std::string here = setup_.wakes ? fmt::format(
                                              "IF(w.live=0,IS_USED_LOCK(CONCAT(IF(w.mode='X','dl:',"
                                              "'dq:'),w.owner)) IS NOT NULL,w.live>{})",
                                              setup_.clock)
                                        : fmt::format("w.live>{}", setup_.clock);
  TRY(r, c.query("read the queue",
                 fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits,w.who FROM dlock_wait w "
                             "WHERE w.name={} AND {} ORDER BY w.ticket",
                             hex(name), here),
                 until));
  return waiters_in(r);
}

Result<std::vector<std::string>> LeaseTable::keys(Connection& c, const std::string& prefix,
                                                  Deadline until) {
  TRY(r, c.query("list the locks",
                 fmt::format("SELECT name FROM dlock_lock WHERE LEFT(name,{})={}", prefix.size(),
                             hex(prefix)),
                 until));
  return names_in(r, prefix.size());
}

}  // namespace dlock::mysql
