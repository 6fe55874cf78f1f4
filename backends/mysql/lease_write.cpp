// SPDX-License-Identifier: Apache-2.0
// The statements that change something. Each is whole: what it depends on is in its condition.
#include <fmt/format.h>
#include <algorithm>
#include "mysql/lease_table.hpp"

namespace dlock::mysql {

// The first version is a time: the row of a key whose row was deleted must not look like one that somebody read before.
Result<void> LeaseTable::make_row(Connection& c, const std::string& name, Deadline until) {
  auto r = c.query("make the lock",
                   fmt::format("INSERT IGNORE INTO dlock_lock(name,version,fence,state,updated) VALUES({},{},0,'',{})", hex(name),
                               setup_.clock, setup_.clock),
                   until);
  if (!r) return fail(std::move(r.error()));
  return {};
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
