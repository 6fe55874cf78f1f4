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
constexpr std::size_t usual_columns = 16;  // columns before the columns of the named locks

std::string queue_name(const Owner& o, Mode mode) {
  return (mode == Mode::exclusive ? "dl:" : "dq:") + o.hex();
}
// Returns an SQL expression that takes the named lock unless this session has it already. Its value
// is 1 if this session has the lock afterwards.
std::string gets_name(const std::string& name) {
  return fmt::format("IF(IS_USED_LOCK('{0}')=CONNECTION_ID(),1,GET_LOCK('{0}',0))", name);
}
bool is_on(std::string_view variable) { return variable != "0" && variable != "OFF"; }

}  // namespace

Result<SqlRows> all_of(Connection& c, std::string_view what, unsigned statements,
                       Result<SqlRows> r) {
  if (!r || r->results == statements) return r;
  c.why_untrusted();
  return fail(Errc::timed_out, "{}: an answer is missing", what);
}

std::string hold_name(const Owner& o) { return "dl:" + o.hex(); }

std::string LeaseTable::lock_of(const LockState::Waiter& w) const {
  return queue_name(w.owner, w.mode);
}
std::string LeaseTable::lock_of(const LockState::Holder& h, const Row& row) const {
  return row.wake.empty() || h.mode != Mode::exclusive ? hold_name(h.owner) : row.wake;
}

// A waiter is alive while its session has the waiter's named lock or, if the waiter polls, until
// the time in column `live`. Our own session has that named lock if it has waited for the waiter's
// end and got the lock. In this case the lock does not show that the waiter is alive.
std::string LeaseTable::alive(std::string_view row, bool wakes) const {
  const std::string name =
      fmt::format("IS_USED_LOCK(CONCAT(IF({0}.mode='X','dl:','dq:'),{0}.owner))", row);
  const std::string by_time = fmt::format("{}.live>{}", row, setup_.clock);
  if (!wakes) return by_time;
  return fmt::format("IF({}.live=0,COALESCE({},CONNECTION_ID())<>CONNECTION_ID(),{})", row, name,
                     by_time);
}

// A contender needs named locks to show that it is alive. Returns the names of the locks that its
// session does not have yet.
std::vector<std::string> LeaseTable::missing_names(const Connection& c, const Attempt& a) const {
  if (!setup_.wakes) return {};
  std::vector<std::string> out{hold_name(a.request.owner)};
  if (a.request.mode != Mode::exclusive) out.push_back(queue_name(a.request.owner, a.request.mode));
  std::erase_if(out, [&](const std::string& name) {
    return std::ranges::find(c.names, name) != c.names.end();
  });
  return out;
}

std::string LeaseTable::read_in_sql(const Connection& c, const Attempt& a) const {
  const Owner& me = a.request.owner;
  std::string sql = columns(setup_.clock);
  // The first reading asks only whether there is a queue. This costs a third of a check that also
  // finds the waiters that are alive.
  if (a.first) {
    sql += ",NULL,l.waiters,NULL,(SELECT MAX(w.ticket) FROM dlock_wait w WHERE w.name=l.name)";
  } else {
    // Always read the ticket from our row. If the row was deleted, we do not wait any more.
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
  for (const std::string& name : missing_names(c, a)) sql += "," + gets_name(name);
  // Release this named lock only after the statement has checked which waiters are alive: for that
  // check, our session must still have the lock.
  if (!a.give_up.empty()) sql += fmt::format(",RELEASE_LOCK('{}')", a.give_up);
  return sql + fmt::format(" FROM dlock_lock l WHERE l.name={}", hex(a.name));
}

// Takes the named locks first, because a row whose named lock is free counts as the row of a dead
// waiter. Sets `waiters=1` last; lease_table.hpp says why.
std::string LeaseTable::join_in_sql(const Connection& c, const Attempt& a) const {
  const std::string live = setup_.wakes ? "0" : fmt::format("{}+{}", setup_.clock, setup_.patience);
  std::string names;
  for (const std::string& name : missing_names(c, a))  // the reading shows which we got
    names += (names.empty() ? "DO " : ",") + gets_name(name);
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
  return finish_reading(c, a, r, sent, until);
}

Result<LeaseTable::Read> LeaseTable::finish_reading(Connection& c, Attempt& a, const SqlRows& r,
                                                    Deadline sent, Deadline until) {
  TRY(row, parse_row(r, c.where(), sent));
  if (!row.exists) return Read{std::move(row)};
  row.wake = r.text(14);
  row.read_only = is_on(r.text(15));
  TRY_VOID(writable(c.where(), row.read_only));
  a.give_up.clear();
  std::size_t at = usual_columns;
  for (const std::string& name : missing_names(c, a))
    if (r.text(at++) == "1") c.names.push_back(name);
  TRY_VOID(add_waiters(c, a, r, row, until));
  return Read{std::move(row), r.has(12) || r.has(13), r.text(11) != "0"};
}

SqlLeaseStatements LeaseTable::statements(bool wakes) const {
  const std::string lives = alive("w", wakes);
  // For `inspect`, a named lock also counts if our own session has it, because a session of inspect
  // never waits.
  const std::string shown =
      wakes ? fmt::format(
                  "IF(w.live=0,IS_USED_LOCK(CONCAT(IF(w.mode='X','dl:','dq:'),w.owner)) IS "
                  "NOT NULL,w.live>{})",
                  setup_.clock)
            : lives;
  const auto statement = [](std::string sql) { return SqlStatement{"", std::move(sql)}; };
  return {
      .make_row = statement(fmt::format("INSERT IGNORE INTO dlock_lock(name,version,fence,state,"
                                        "updated) VALUES($1,$3,0,$2,{})",
                                        setup_.clock)),
      .revoke = statement("UPDATE dlock_lock SET revoked=$3 WHERE name=$1 AND version=$2"),
      .start = statement("UPDATE dlock_lock SET started=NULLIF($3,0),started_until=NULLIF($4,0),"
                         "version=$5 WHERE name=$1 AND version=$2"),
      .stay = statement(
          fmt::format("UPDATE dlock_wait SET live={}+$3 WHERE name=$1 AND owner=$2", setup_.clock)),
      .leave = statement("DELETE FROM dlock_wait WHERE name=$1 AND owner=$2"),
      .ahead = statement(fmt::format(
          "SELECT COUNT(*) FROM dlock_wait w JOIN dlock_wait m ON m.name=w.name AND m.owner=$2 "
          "WHERE w.name=$1 AND w.ticket<m.ticket AND {}",
          lives)),
      .all_ahead = statement(fmt::format(
          "SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE w.name=$1 AND "
          "w.ticket<$2 AND w.owner<>$3 AND {} ORDER BY w.ticket",
          lives)),
      .count_ahead = statement(
          wakes ? fmt::format("SELECT COUNT(*),MAX(w.since),MAX(w.ticket) FROM dlock_wait w WHERE "
                              "w.name=$1 AND w.ticket<$2 AND {}",
                              lives)
                : ""),
      .waiters = statement(fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits,w.who FROM "
                                       "dlock_wait w WHERE w.name=$1 AND {} ORDER BY w.ticket",
                                       shown)),
      .keys = statement("SELECT name FROM dlock_lock WHERE LEFT(name,LENGTH($1))=$1")};
}

Result<SqlLeaseRow> LeaseTable::read(SqlSession& s, Attempt& a, bool join, Deadline until) {
  Connection& c = as_connection(s);
  TRY(one, read_once(c, a, join, until));
  Row& row = one.row;
  if (!row.exists) return std::move(row);
  if (row.state.holder(a.request.owner, row.now)) {  // an earlier request of ours was granted
    a.first = false;
    if (row.ticket || one.queue) (void)leave_queue(c, a.name, a.request.owner, row.ticket, until);
    return std::move(row);
  }
  const bool again = std::exchange(a.first, false) && one.queue;
  // true only if another program changed the row (lease_table.hpp, case 4)
  const bool unmarked = row.ticket && !one.marked;
  if (!again && !unmarked) return std::move(row);
  if (unmarked)
    TRY_VOID(c.query("join the queue", until,
                     "UPDATE dlock_lock SET waiters=1 WHERE name={} AND waiters=0", hex(a.name)));
  TRY(whole, read_once(c, a, again && a.request.wait, until));
  return std::move(whole.row);
}

Result<void> LeaseTable::listen(SqlSession& s, Attempt& a, const std::string& lock, Duration wait) {
  Connection& c = as_connection(s);
  const double seconds = std::max(0.001, std::chrono::duration<double>(wait).count());
  a.give_up = lock;
  return c.send("wait", fmt::format("SELECT {},GET_LOCK('{}',{:.3f});{}", setup_.clock, lock,
                                    seconds, read_in_sql(c, a)));
}

Result<SqlQueueRow> LeaseTable::waited(SqlSession& s, Attempt& a, SqlAnswers answers, Deadline sent,
                                       Deadline until) {
  Connection& c = as_connection(s);
  TRY(both, all_of(c, "wait", 2, std::move(answers.front())));
  if (both.rows.empty()) return fail(malformed_reply("wait", c.where()));
  a.distance = Attempt{}.distance;
  const bool obtained = both.text(1) == "1";
  const auto began = both.number<std::int64_t>(0);
  both.rows.erase(both.rows.begin());
  TRY(one, finish_reading(c, a, both, sent, until));
  if (one.row.ticket && !one.marked) {
    TRY(again, read(c, a, false, until));
    return SqlQueueRow{obtained, std::move(again)};
  }
  count_wait(one.row, began);
  return SqlQueueRow{obtained, std::move(one.row)};
}

bool LeaseTable::may_wait_further(const SqlSession& s, Attempt& a) {
  if (s.remedy() != Remedy::later) return false;
  a.distance = std::min(a.distance * 2, 1024u);
  return true;
}

Result<SqlLeaseRow> LeaseTable::read_row(SqlSession& s, const std::string& name, Deadline until) {
  const Deadline sent = Clock::now();
  TRY(r, as_connection(s).query("read the lock", until,
                                "{},@@global.read_only FROM dlock_lock l WHERE l.name={}",
                                columns(setup_.clock), hex(name)));
  TRY(row, parse_row(r, s.where(), sent));
  row.read_only = row.exists && is_on(r.text(10));
  return std::move(row);
}

}  // namespace dlock::mysql
