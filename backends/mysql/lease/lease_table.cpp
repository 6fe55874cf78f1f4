// SPDX-License-Identifier: Apache-2.0
// The statements that change data. Each is atomic: its preconditions are in its WHERE clause.
#include "mysql/lease/lease_table.hpp"
#include <fmt/format.h>
#include <mysqld_error.h>
#include <algorithm>
#include <array>
#include "core/text.hpp"

namespace dlock::mysql {
namespace {

using namespace std::chrono_literals;

// thirty years: a longer ttl would overflow when the server adds the ttl to its clock
constexpr Micros longest_ttl = 1'000'000'000'000'000;

// Returns the record of a grant as an SQL expression. The token and the times of the record come
// from the expression `now`, which the server evaluates. The result has a `?` for each of
// grant_values(). These values do not contain the holder's times, only the length of the lease and
// of the delay after it.
std::string grant_in_sql(std::string_view now) {
  return fmt::format("CONCAT(?,{0},?,{0},' ',{0},' ',{0}+?,?)", now);
}
std::array<Value, 4> grant_values(std::string_view key, const LockState::Holder& h) {
  return {Bytes{fmt::format("{}{}\nH {} {} {} ", holders_magic, percent_encode(key), h.owner.hex(),
                            static_cast<char>(h.mode), h.ticket)},
          Bytes{fmt::format(" {} ", h.slot)}, h.deadline - h.since,
          Bytes{fmt::format(" {} {}\n", h.delay, h.meta.empty() ? "-" : h.meta)}};
}

// Whether the key is free does not depend on the clock here: the statement takes the key only if
// the row is exactly as the last release wrote it. The session takes its wake lock before it takes
// the key, so a contender that sees the grant finds a lock to wait for.
//
// A statement that names no version could be carried out after we gave it up, perhaps because it
// waited for the row. Its grant would have no owner. So the statement takes the key only if it
// starts before a given time on the server's clock. That time is early enough that a wait for the
// row also ends before we give the statement up. The clock is also the token of the grant. If the
// clock was set back and is not above the newest token of the key, the statement changes nothing,
// and LockState decides. No column is read after it was assigned, so the order of the assignments
// does not matter.
std::string take_in_sql(std::string_view clock) {
  return fmt::format(
      "UPDATE dlock_lock SET state={0},version=?,fence=LAST_INSERT_ID({1}),updated={1},wake=? "
      "WHERE name=? AND fence<{1} AND {1}<? AND state=? AND waiters=0 AND layout=1 AND {2}",
      grant_in_sql(clock), clock, server_writes);
}

// Returns the SQL assignment that records the last run. Tokens have 20 digits here, so they compare
// as bytes. If the new token is not above the recorded token, the assignment changes nothing.
std::string run_in_sql(std::string_view clock, std::string_view token, std::string_view head,
                       std::string_view status, std::string_view granted, std::string_view who) {
  return fmt::format("last_run=IF(LEFT(last_run,20)<{1},CONCAT({2},{0},{3},{4},{5}),last_run)",
                     clock, token, head, status, granted, who);
}
std::string padded(FencingToken token) { return fmt::format("{:020}", token); }

std::string free_in_sql(std::string_view clock, bool with_run) {
  const std::string run = with_run ? run_in_sql(clock, "?", "?", "?", "?", "?") + "," : "";
  return fmt::format(
      "UPDATE dlock_lock SET {1}state=?,version=?,updated={0} WHERE name=? AND version=? AND {0}<? "
      "AND waiters<=?",
      clock, run);
}

bool has_name(const Connection& c, const std::string& name) {
  return std::ranges::find(c.names, name) != c.names.end();
}

}  // namespace

LeaseTable::LeaseTable(Setup setup)
    : SqlLeaseTable(setup),
      take_{"dlock_take", take_in_sql(setup.clock)},
      free_{"dlock_give", free_in_sql(setup.clock, false)},
      free_run_{"dlock_give_run", free_in_sql(setup.clock, true)},
      waking_(statements(true)),
      polling_(statements(false)) {}

void LeaseTable::adapt(const SqlSession& s, const SqlOptions& o) noexcept {
  const Facts& f = as_connection(s).facts();
  setup_.wakes = !f.galera && !f.proxied && !o.poll;
  setup_.skew = f.galera ? o.clock_skew.count() : 0;
}

bool LeaseTable::is_unclear(const SqlSession& s) const noexcept {
  return s.broken() || as_connection(s).error_number() == ER_QUERY_INTERRUPTED;
}

Result<void> LeaseTable::keep_session(SqlSession& s, Duration ttl, Deadline until) {
  return as_connection(s).wait_timeout(std::max<Duration>(ttl + 15s, 120s), until);
}

Result<std::optional<SqlLeaseDecision>> LeaseTable::take_free(SqlSession& s, const Attempt& a,
                                                              Deadline until) {
  Connection& c = as_connection(s);
  const Deadline sent = Clock::now();
  const auto bound =
      c.server_time(until - std::min<Clock::duration>(c.row_wait(), (until - sent) / 2));
  if (!bound || a.request.ttl > longest_ttl) return std::nullopt;
  LockState decided;
  const auto answer = decided.acquire(a.request, 0);
  LockState::Holder& mine = decided.holders.front();
  const auto values = grant_values(a.key, mine);
  std::string before;
  if (setup_.wakes && c.wake_lock.empty()) {
    c.wake_lock = "db:" + Owner::random().hex();
    before = fmt::format("DO GET_LOCK('{}',0);", c.wake_lock);
  }
  const std::string wake_lock = setup_.wakes ? c.wake_lock : "";
  const std::uint64_t version = unique_number();
  TRY(r, all_of(c, "take the lock", before.empty() ? 1 : 2,
                c.query("take the lock", take_,
                        {values[0], values[1], values[2], values[3], version, Bytes{wake_lock},
                         Bytes{a.name}, *bound, Bytes{encode({a.key, {}, {}})}},
                        before, "", until)));
  if (r.affected != 1) return std::nullopt;
  const auto now = static_cast<Micros>(r.insert_id);
  mine.token = r.insert_id;
  mine.since = now;
  mine.deadline = now + a.request.ttl;
  Decision out{.answer = answer, .held = false, .sent = sent, .now = now, .version = version};
  std::get<LockState::Granted>(out.answer).token = r.insert_id;
  out.written = {
      version, r.insert_id, {a.key, decided.holders, {{a.request.owner, now}}}, wake_lock};
  return out;
}

Result<SqlRows> LeaseTable::write_free(Connection& c, const std::string& name, const Change& change,
                                       bool quietly, std::string_view behind, Deadline until) {
  Values values;
  if (const auto& run = change.run)
    values = {Bytes{padded(run->token)}, Bytes{padded(run->token) + ' '},
              Bytes{fmt::format(" {} ", run->ended)}, run->granted, Bytes{' ' + run->who}};
  for (Value value : Values{Bytes{encode(change.next.holders)}, change.next.version, Bytes{name},
                            change.version, change.before, std::int64_t{quietly ? 0 : 255}})
    values.push_back(std::move(value));
  return all_of(
      c, "write the lock", behind.empty() ? 1 : 2,
      c.query("write the lock", change.run ? free_run_ : free_, values, "", behind, until));
}

Result<bool> LeaseTable::write_release(SqlSession& s, const std::string& name, const Change& change,
                                       std::string& wake_lock, Deadline until) {
  Connection& c = as_connection(s);
  const bool has_wake_lock = !wake_lock.empty() && c.wake_lock == wake_lock;
  if (has_wake_lock) {
    TRY(r, write_free(c, name, change, true, "", until));
    if (r.affected == 1) {
      wake_lock.clear();
      return true;
    }
  }
  // The statement writes the release, and then releases the named lock that wakes the next waiter.
  // If the version has changed, the statement does neither, and the caller tries again.
  const std::string mine = hold_name(*change.ended);
  const std::string lock = has_wake_lock ? c.wake_lock : has_name(c, mine) ? mine : "";
  TRY(r, write_free(
             c, name, change, false,
             lock.empty() ? "" : fmt::format(";DO IF(ROW_COUNT()>0,RELEASE_LOCK('{}'),0)", lock),
             until));
  if (r.affected == 0) return false;
  if (has_wake_lock) {
    c.wake_lock.clear();
    wake_lock.clear();
  } else {
    std::erase(c.names, mine);
  }
  return true;
}

std::string LeaseTable::swap_in_sql(const std::string& name, const Change& change,
                                    std::string_view also) const {
  const SqlWrittenRow& next = change.next;
  return fmt::format(
      "UPDATE dlock_lock l SET state={},version={},fence={},updated={}{} WHERE name={} AND "
      "version={}",
      hex(encode(next.holders)), next.version, next.fence, setup_.clock, also, hex(name),
      change.version);
}

Result<bool> LeaseTable::write(SqlSession& s, const std::string& name, const Change& change,
                               Deadline until) {
  std::string also;
  if (const auto& run = change.run)
    also = "," + run_in_sql(setup_.clock, hex(padded(run->token)), hex(padded(run->token) + ' '),
                            hex(fmt::format(" {} ", run->ended)), std::to_string(run->granted),
                            hex(' ' + run->who));
  TRY(r, as_connection(s).query("write the lock", swap_in_sql(name, change, also), until));
  return r.affected == 1;
}

// The UPDATE sets `waiters` only if there are rows of other waiters, because otherwise nobody has
// to be woken when this grant ends. If the UPDATE changed the row, the next statement deletes the
// owner's row, the rows of dead waiters before it, and the rows that were passed. Then the name
// `dq:<owner>` is released, so that the next waiter that may run together with the owner moves up.
Result<bool> LeaseTable::grant(SqlSession& s, const Attempt& a, const Row& row, SqlWrittenRow& next,
                               std::uint64_t passed, Deadline until) {
  Connection& c = as_connection(s);
  const std::string me = a.request.owner.hex(), queueing = "dq:" + me;
  std::string sql = swap_in_sql(
      a.name, {row.version, next},
      fmt::format(",wake='',waiters=EXISTS(SELECT 1 FROM dlock_wait w WHERE w.name=l.name AND "
                  "w.owner<>'{}')",
                  me));
  if (row.ticket || passed != 0)
    sql += fmt::format(
        ";DELETE w FROM dlock_wait w WHERE ROW_COUNT()=1 AND w.name={0} AND (w.ticket={1} OR "
        "w.ticket<={2} OR (w.ticket<{1} AND NOT {3}))",
        hex(a.name), row.ticket.value_or(0), passed, alive("w"));
  if (row.ticket && has_name(c, queueing))
    sql += fmt::format(";DO IF(ROW_COUNT()>0,RELEASE_LOCK('{}'),0)", queueing);
  const auto r = c.query("write the lock", sql, until);
  // If the UPDATE has a reply, we know whether the grant is committed. The grant is valid even if a
  // row cannot be deleted: that row does not count while we hold the key, and afterwards it counts
  // as the row of a dead waiter.
  const SqlRows& got = r ? *r : c.answered();
  if (got.results == 0) return fail(r.error());
  if (got.affected > 1) std::erase(c.names, queueing);
  return got.affected > 0;
}

void LeaseTable::claim_locks(SqlSession& s, const std::string& name, const LockState::Holder& h,
                             SqlWrittenRow& known, Deadline until) {
  Connection& c = as_connection(s);
  const std::string lock = hold_name(h.owner);
  const auto named = c.query("take the name", until, "SELECT GET_LOCK('{}',0)", lock);
  if (named && named->text(0) == "1") c.names.push_back(lock);
  if (std::exchange(known.wake, {}).empty()) return;
  (void)c.query("take the name", until,
                "UPDATE dlock_lock SET wake='' WHERE name={} AND version={}", hex(name),
                known.version);
}

Result<void> LeaseTable::release_locks(SqlSession& s, const std::string&, const Owner& owner,
                                       const std::string& wake_lock, bool, Deadline until) {
  Connection& c = as_connection(s);
  std::string sql;
  const auto end = [&](const std::string& lock) {
    sql += fmt::format("{}RELEASE_LOCK('{}')", sql.empty() ? "DO " : ",", lock);
  };
  const bool wakes = !wake_lock.empty() && c.wake_lock == wake_lock;
  if (wakes) end(wake_lock);
  for (const std::string& lock : {"dl:" + owner.hex(), "dq:" + owner.hex()})
    if (has_name(c, lock)) end(lock);
  if (sql.empty()) return {};
  TRY_VOID(c.query("release the names", sql, until));
  if (wakes) c.wake_lock.clear();
  std::erase_if(c.names, [&](const std::string& n) { return n.ends_with(owner.hex()); });
  return {};
}

// Deletes the row of an owner from the queue, after an earlier request was granted the lock.
Result<void> LeaseTable::leave_queue(Connection& c, const std::string& name, const Owner& owner,
                                     std::optional<std::uint64_t> ticket, Deadline until) {
  std::string sql = fmt::format("DELETE w FROM dlock_wait w WHERE w.name={} AND ", hex(name));
  if (!ticket) sql += fmt::format("w.owner='{}'", owner.hex());
  else sql += fmt::format("(w.ticket={0} OR (w.ticket<{0} AND NOT {1}))", *ticket, alive("w"));
  const std::string queueing = "dq:" + owner.hex();
  const bool named = has_name(c, queueing);
  if (named) sql += fmt::format(";DO RELEASE_LOCK('{}')", queueing);
  TRY_VOID(c.query("leave the queue", sql, until));
  if (named) std::erase(c.names, queueing);
  return {};
}

Result<void> LeaseTable::erase(SqlSession& s, const std::string& name, Deadline until) {
  TRY_VOID(as_connection(s).query(
      "remove", until,
      "DELETE FROM dlock_wait WHERE name={0};DELETE FROM dlock_lock WHERE name={0}", hex(name)));
  return {};
}

}  // namespace dlock::mysql
