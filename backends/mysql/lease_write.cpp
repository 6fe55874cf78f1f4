// SPDX-License-Identifier: Apache-2.0
// The statements that change something. Each is whole: what it depends on is in its condition.
#include <fmt/format.h>
#include <algorithm>
#include "mysql/lease_table.hpp"

namespace dlock::mysql {
namespace {

constexpr Micros longest_ttl = 1'000'000'000'000'000;  // thirty years: the server adds it to its time, and does not saturate

}  // namespace

// The first version is a time: the row of a key whose row was deleted must not look like one that somebody read before.
Result<void> LeaseTable::make_row(Connection& c, const Asking& a, Deadline until) {
  auto r = c.query("make the lock",
                   fmt::format("INSERT IGNORE INTO dlock_lock(name,version,fence,state,updated) VALUES({},{},0,{},{})",
                               hex(a.name), setup_.clock, hex(encode({a.key, {}, {}})), setup_.clock),
                   until);
  if (!r) return fail(std::move(r.error()));
  return {};
}

// The name first: whoever sees the grant finds somebody to wait for. Nothing is judged by the clock here: that nobody holds the key is exactly what
// the last release wrote, and the queue is empty if it has no row, dead or alive.
//
// A statement that names no version does not age by itself: one that comes when we have given it up, or waits for the row until then, would be a
// grant to nobody. So it says until when, on the server's clock, and leaves time for a wait for the row. The version that it writes is its token, the one
// number that its answer can tell. Only columns that it has not assigned yet are read, so their order does not matter.
Result<std::optional<LeaseTable::Outcome>> LeaseTable::take_free(Connection& c, const Asking& a, Deadline until) {
  const Deadline sent = Clock::now();
  const auto bound = c.server_time(until - std::min<Clock::duration>(c.row_wait(), (until - sent) / 2));
  if (!bound || a.ask.ttl > longest_ttl) return std::optional<Outcome>{};
  LockState decided;
  const auto answer = decided.acquire(a.ask, 0);
  const auto& holder = decided.holders.front();
  constexpr std::string_view token = "IF(fence<@dlock_now,@dlock_now,fence+1)";
  if (setup_.named) c.names.push_back(hold_name(a.ask.owner));
  const auto r = c.query(
      "take the lock",
      fmt::format(
          "SET @dlock_now={}{};UPDATE dlock_lock l SET state={},version={},fence=LAST_INSERT_ID({}),updated=@dlock_now "
          "WHERE name={} AND version<@dlock_now AND @dlock_now<{} AND state={} AND NOT EXISTS(SELECT 1 FROM dlock_wait w WHERE "
          "w.name=l.name)",
          setup_.clock, setup_.named ? fmt::format(",@dlock_name=GET_LOCK('{}',0)", hold_name(a.ask.owner)) : "",
          grant_in_sql(a.key, holder, token, "@dlock_now"), token, token, hex(a.name), *bound, hex(encode({a.key, {}, {}}))),
      until);
  if (!r) return fail(r.error());
  if (r->results != 2) {
    c.distrust();
    return fail(Errc::timed_out, "take the lock: an answer is missing");
  }
  if (r->affected != 1) return std::optional<Outcome>{};
  Outcome out{answer, false, sent};
  std::get<LockState::Granted>(out.answer).token = r->insert_id;
  out.known = {r->insert_id, {a.key, {}, {}}, a.ask.ttl};
  return std::optional{std::move(out)};
}

Result<bool> LeaseTable::swap(Connection& c, const std::string& name, std::uint64_t version, const Holders& holders,
                              FencingToken fence, std::string_view more, std::string_view then, Deadline until) {
  auto r =
      c.query("write the lock",
              fmt::format("UPDATE dlock_lock SET state={},version=version+1,fence={},updated={} WHERE name={} AND version={}{}{}",
                          hex(encode(holders)), fence, setup_.clock, hex(name), version, more, then),
              until);
  if (!r) return fail(std::move(r.error()));
  if (r->affected == 0) ++conflicts_;
  return r->affected == 1;
}

Result<void> LeaseTable::queue_up(Connection& c, const Asking& a, Deadline until) {
  const std::string live = setup_.named ? "0" : fmt::format("{}+{}", setup_.clock, setup_.patience);
  auto r =
      c.query("join the queue",
              fmt::format("INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) VALUES({},'{}','{}',{},{},{},{}) ON "
                          "DUPLICATE KEY UPDATE live=VALUES(live)",
                          hex(a.name), a.ask.owner.hex(), static_cast<char>(a.ask.mode), a.ask.limit, live, setup_.clock,
                          hex(a.ask.meta.substr(0, 4096))),
              until);
  if (!r) return fail(std::move(r.error()));
  return {};
}

Result<void> LeaseTable::leave_queue(Connection& c, const std::string& name, const Owner& owner,
                                     std::optional<std::uint64_t> ticket, bool sweep, Deadline until) {
  std::string sql = fmt::format("DELETE w FROM dlock_wait w WHERE w.name={}", hex(name));
  if (!ticket) sql += fmt::format(" AND w.owner='{}'", owner.hex());
  else if (sweep) sql += fmt::format(" AND w.ticket<={}", *ticket);  // whoever is still ahead is dead or was passed
  else sql += fmt::format(" AND (w.ticket={0} OR (w.ticket<{0} AND NOT {1}))", *ticket, alive("w"));
  const std::string queueing = "dq:" + owner.hex();
  const bool named = std::find(c.names.begin(), c.names.end(), queueing) != c.names.end();
  if (named) sql += fmt::format("; DO RELEASE_LOCK('{}')", queueing);
  auto r = c.query("leave the queue", sql, until);
  if (!r) return fail(std::move(r.error()));
  if (named) std::erase(c.names, queueing);
  return {};
}

Result<void> LeaseTable::free_names(Connection& c, const Owner& owner, Deadline until) {
  std::string sql;
  for (const std::string& name : {"dl:" + owner.hex(), "dq:" + owner.hex()})
    if (std::find(c.names.begin(), c.names.end(), name) != c.names.end())
      sql += fmt::format("{}RELEASE_LOCK('{}')", sql.empty() ? "DO " : ",", name);
  if (sql.empty()) return {};
  auto r = c.query("release the names", sql, until);
  if (!r) return fail(std::move(r.error()));
  std::erase_if(c.names, [&](const std::string& n) { return n.ends_with(owner.hex()); });
  return {};
}

Result<void> LeaseTable::say_alive(Connection& c, const std::string& name, const Owner& me, Deadline until) {
  auto r = c.query("stay in the queue",
                   fmt::format("UPDATE dlock_wait SET live={}+{} WHERE name={} AND owner='{}'", setup_.clock, setup_.patience,
                               hex(name), me.hex()),
                   until);
  if (!r) return fail(std::move(r.error()));
  return {};
}

}  // namespace dlock::mysql
