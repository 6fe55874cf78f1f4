// SPDX-License-Identifier: Apache-2.0
// The statements that change data. Each is atomic: its preconditions are in its WHERE clause.
#include <fmt/format.h>
#include <algorithm>
#include "mysql/lease/lease_table.hpp"

namespace dlock::mysql {
namespace {

// thirty years: the server adds it to its time, and does not saturate
constexpr Micros longest_ttl = 1'000'000'000'000'000;

// No decision here depends on the clock: a free key is exactly what the last release wrote. The
// bell first: a contender that sees the grant finds a session to wait for.
//
// A statement that names no version does not age by itself: one that is executed after we gave it
// up, or waits for the row until then, would be a grant without owner. So it has a latest time, on
// the server's clock, and leaves time for a wait for the row. Its token is that clock: a key whose
// newest token is not below it (the clock was set back) is left to LockState. The version that it
// writes is its token, the one number that its answer can return. No column is read after it was
// assigned, so their order does not matter.
std::string take_in_sql(std::string_view clock) {
  return fmt::format(
      "UPDATE dlock_lock SET state={0},version={1},fence=LAST_INSERT_ID({1}),updated={1},wake=? "
      "WHERE name=? AND version<{1} AND fence<{1} AND {1}<? AND state=? AND waiters=0 AND layout=1 "
      "AND {2}",
      grant_in_sql(clock), clock, server_writes);
}

// The last run of the key, as an assignment that comes before that of `updated`, which is the time
// of a grant in one statement. Tokens of equal width compare as bytes; one that is not above the
// token that is recorded changes nothing.
std::string run_in_sql(std::string_view clock, std::string_view token, std::string_view head,
                       std::string_view status, std::string_view granted, std::string_view who) {
  return fmt::format("last_run=IF(LEFT(last_run,20)<{1},CONCAT({2},{0},{3},{4},{5}),last_run)",
                     clock, token, head, status, granted, who);
}
std::string padded(FencingToken token) { return fmt::format("{:020}", token); }
constexpr std::size_t longest_who = 4000;  // of the 4096 bytes of last_run

std::string give_in_sql(std::string_view clock, bool with_run) {
  const std::string run =
      with_run ? run_in_sql(clock, "?", "?", "?", "IF(?=0,updated,?)", "?") + "," : "";
  return fmt::format(
      "UPDATE dlock_lock SET {1}state=?,version=version+1,updated={0} WHERE name=? AND version=? "
      "AND {0}<updated*?+? AND waiters<=?",
      clock, run);
}

}  // namespace

LeaseTable::LeaseTable(Setup setup)
    : setup_(setup),
      take_{"dlock_take", take_in_sql(setup.clock)},
      give_{"dlock_give", give_in_sql(setup.clock, false)},
      give_run_{"dlock_give_run", give_in_sql(setup.clock, true)} {}

// The first version is a time: the row of a key whose row was deleted must differ from one that was
// read before.
Result<void> LeaseTable::make_row(Connection& c, const Asking& a, Deadline until) {
  TRY_VOID(c.query(
      "make the lock",
      fmt::format(
          "INSERT IGNORE INTO dlock_lock(name,version,fence,state,updated) VALUES({},{},0,{},{})",
          hex(a.name), setup_.clock, hex(encode({a.key, {}, {}})), setup_.clock),
      until));
  return {};
}

Result<std::optional<LeaseTable::Answered>> LeaseTable::take_free(Connection& c, const Asking& a,
                                                                  Deadline until) {
  const Deadline sent = Clock::now();
  const auto bound =
      c.server_time(until - std::min<Clock::duration>(c.row_wait(), (until - sent) / 2));
  if (!bound || a.ask.ttl > longest_ttl) return std::optional<Answered>{};
  LockState decided;
  const auto answer = decided.acquire(a.ask, 0);
  const auto values = grant_values(a.key, decided.holders.front());
  std::string before;
  if (setup_.named && c.bell.empty()) {
    c.bell = "db:" + Owner::random().hex();
    before = fmt::format("DO GET_LOCK('{}',0);", c.bell);
  }
  const std::string bell = setup_.named ? c.bell : "";
  TRY(r, all_of(c, "take the lock", before.empty() ? 1 : 2,
                c.query("take the lock", take_,
                        {values[0], values[1], values[2], values[3], Bytes{bell}, Bytes{a.name},
                         *bound, Bytes{encode({a.key, {}, {}})}},
                        before, "", until)));
  if (r.affected != 1) return std::optional<Answered>{};
  Answered out{answer, false, sent};
  std::get<LockState::Granted>(out.answer).token = r.insert_id;
  out.known = {r.insert_id, {a.key, {}, {}}, a.ask.ttl, bell, a.ask.meta};
  return std::optional{std::move(out)};
}

// Of the known row, and only before our ttl is over.
Result<Answer> LeaseTable::give_back(Connection& c, const std::string& name, const Owner& me,
                                     const Known& known, bool quietly, std::string_view behind,
                                     Deadline until, std::string_view ended) {
  Holders rest = known.holders;
  Micros end = known.ttl;
  FencingToken token = known.version;  // of a grant in one statement
  Micros granted = 0;
  std::string meta = known.meta;
  if (end == 0) {
    const auto mine = std::find_if(rest.list.rbegin(), rest.list.rend(),
                                   [&](const auto& h) { return h.owner == me; });
    end = mine->deadline;
    token = mine->token;
    meta = mine->meta;
    const auto since = rest.granted.find(me);
    granted = since == rest.granted.end() ? mine->since : since->second;
    rest.list.erase(std::next(mine).base());
    rest.granted.erase(me);
  }
  Values values;
  if (!ended.empty())
    values = {Bytes{padded(token)},
              Bytes{padded(token) + ' '},
              Bytes{fmt::format(" {} ", ended)},
              granted,
              granted,
              Bytes{' ' + meta.substr(0, longest_who)}};
  for (Value value : Values{Bytes{encode(rest)}, Bytes{name}, known.version,
                            std::int64_t{known.ttl != 0}, end, std::int64_t{quietly ? 0 : 255}})
    values.push_back(std::move(value));
  return c.query("write the lock", ended.empty() ? give_ : give_run_, values, "", behind, until);
}

// The same for a change that was decided on a reading.
std::string LeaseTable::run_in_sql(const Seen& seen, const Owner& me,
                                   std::string_view ended) const {
  const auto* h = seen.state.holder(me, seen.now);
  if (ended.empty() || !h) return "";
  const auto since = seen.holders.granted.find(me);
  const std::string token = padded(h->token);
  return "," + mysql::run_in_sql(
                   setup_.clock, hex(token), hex(token + ' '), hex(fmt::format(" {} ", ended)),
                   std::to_string(since == seen.holders.granted.end() ? h->since : since->second),
                   hex(' ' + h->meta.substr(0, longest_who)));
}

Result<void> LeaseTable::ring(Connection& c, const Known& known, Deadline until) {
  if (known.wake.empty() || c.bell != known.wake) return {};
  TRY_VOID(c.query("release the names", fmt::format("DO RELEASE_LOCK('{}')", c.bell), until));
  c.bell.clear();
  return {};
}

Result<void> LeaseTable::forget_bell(Connection& c, const std::string& name, std::uint64_t version,
                                     Deadline until) {
  TRY_VOID(c.query(
      "take the name",
      fmt::format("UPDATE dlock_lock SET wake='' WHERE name={} AND version={}", hex(name), version),
      until));
  return {};
}

std::string LeaseTable::swap_in_sql(const std::string& name, std::uint64_t version,
                                    const Holders& holders, FencingToken fence,
                                    std::string_view also) const {
  return fmt::format(
      "UPDATE dlock_lock l SET state={},version=version+1,fence={},updated={}{} WHERE name={} AND "
      "version={}",
      hex(encode(holders)), fence, setup_.clock, also, hex(name), version);
}

Result<bool> LeaseTable::swap(Connection& c, const std::string& name, std::uint64_t version,
                              const Holders& holders, FencingToken fence, std::string_view also,
                              Deadline until) {
  TRY(r, c.query("write the lock", swap_in_sql(name, version, holders, fence, also), until));
  if (r.affected == 0) ++conflicts_;
  return r.affected == 1;
}

// The end of a grant for a key that was read needs no wake-up, unless there are rows of other
// waiters. Behind it, and only if it was made: its row goes, those of the dead before it, and with
// `sweep` those that were passed; then the name by which the next one that may run beside it moves
// up.
Result<bool> LeaseTable::grant(Connection& c, const Asking& a, const Seen& seen,
                               const Holders& holders, FencingToken fence, bool sweep,
                               Deadline until) {
  const std::string me = a.ask.owner.hex();
  std::string sql = swap_in_sql(
      a.name, seen.version, holders, fence,
      fmt::format(",wake='',waiters=EXISTS(SELECT 1 FROM dlock_wait w WHERE w.name=l.name AND "
                  "w.owner<>'{}')",
                  me));
  if (seen.ticket)
    sql += fmt::format(
        ";DELETE w FROM dlock_wait w WHERE ROW_COUNT()=1 AND w.name={0} AND (w.ticket={1} OR "
        "(w.ticket<{1}{2}))",
        hex(a.name), *seen.ticket, sweep ? "" : " AND NOT " + alive("w"));
  const std::string queueing = "dq:" + me;
  const bool named = std::find(c.names.begin(), c.names.end(), queueing) != c.names.end();
  if (seen.ticket && named)
    sql += fmt::format(";DO IF(ROW_COUNT()>0,RELEASE_LOCK('{}'),0)", queueing);
  const auto r = c.query("write the lock", sql, until);
  // Its UPDATE has an answer: the grant is committed, or not. A row that cannot be deleted does not
  // undo it: it counts for nothing while we hold the key, and then as that of a dead waiter.
  const Answer& got = r ? *r : c.answered();
  if (got.results == 0) return fail(r.error());
  if (got.affected == 0) ++conflicts_;
  if (got.affected > 1) std::erase(c.names, queueing);
  return got.affected > 0;
}

// Names no version: the current or next owner must see it.
Result<void> LeaseTable::mark(Connection& c, const std::string& name, Deadline until) {
  TRY_VOID(
      c.query("join the queue",
              fmt::format("UPDATE dlock_lock SET waiters=1 WHERE name={} AND waiters=0", hex(name)),
              until));
  return {};
}

// The names first: a row whose name is free belongs to a dead waiter. The mark last: for its
// purpose see lease_table.hpp.
std::string LeaseTable::join_in_sql(const Connection& c, const Asking& a) const {
  const std::string live = setup_.named ? "0" : fmt::format("{}+{}", setup_.clock, setup_.patience);
  std::string names;
  for (const std::string& name : missing_names(c, a))  // if obtained shows in the read
    names += (names.empty() ? "DO " : ",") + have_name(name);
  if (!names.empty()) names += ";";
  return fmt::format(
      "{}INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) "
      "VALUES({},'{}','{}',{},{},{},{}) ON DUPLICATE KEY UPDATE live=VALUES(live);UPDATE "
      "dlock_lock SET waiters=1 WHERE name={} AND waiters=0;",
      names, hex(a.name), a.ask.owner.hex(), static_cast<char>(a.ask.mode), a.ask.limit, live,
      setup_.clock, hex(a.ask.meta.substr(0, 4096)), hex(a.name));
}

// Of a grant that an earlier request was given.
Result<void> LeaseTable::leave_queue(Connection& c, const std::string& name, const Owner& owner,
                                     std::optional<std::uint64_t> ticket, Deadline until) {
  std::string sql = fmt::format("DELETE w FROM dlock_wait w WHERE w.name={} AND ", hex(name));
  if (!ticket) sql += fmt::format("w.owner='{}'", owner.hex());
  else sql += fmt::format("(w.ticket={0} OR (w.ticket<{0} AND NOT {1}))", *ticket, alive("w"));
  const std::string queueing = "dq:" + owner.hex();
  const bool named = std::find(c.names.begin(), c.names.end(), queueing) != c.names.end();
  if (named) sql += fmt::format(";DO RELEASE_LOCK('{}')", queueing);
  TRY_VOID(c.query("leave the queue", sql, until));
  if (named) std::erase(c.names, queueing);
  return {};
}

Result<void> LeaseTable::free_names(Connection& c, const Owner& owner, Deadline until) {
  std::string sql;
  for (const std::string& name : {"dl:" + owner.hex(), "dq:" + owner.hex()})
    if (std::find(c.names.begin(), c.names.end(), name) != c.names.end())
      sql += fmt::format("{}RELEASE_LOCK('{}')", sql.empty() ? "DO " : ",", name);
  if (sql.empty()) return {};
  TRY_VOID(c.query("release the names", sql, until));
  std::erase_if(c.names, [&](const std::string& n) { return n.ends_with(owner.hex()); });
  return {};
}

Result<void> LeaseTable::say_alive(Connection& c, const std::string& name, const Owner& me,
                                   Deadline until) {
  TRY_VOID(c.query("stay in the queue",
                   fmt::format("UPDATE dlock_wait SET live={}+{} WHERE name={} AND owner='{}'",
                               setup_.clock, setup_.patience, hex(name), me.hex()),
                   until));
  return {};
}

}  // namespace dlock::mysql
