// SPDX-License-Identifier: Apache-2.0
#include "mysql/lease_table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include "mysql/client.hpp"

namespace dlock::mysql {
namespace {

Error damaged(const Connection& c) {
  return {Errc::protocol, fmt::format("table dlock_lock at {}: a record is damaged or of another version", c.at().text())};
}

bool in_force(const LockState& s, const Owner& owner, Micros now) noexcept { return s.holder(owner, now) != nullptr; }

}  // namespace

std::string hold_name(const Owner& o) { return "dl:" + o.hex(); }
std::string queue_name(const Owner& o, Mode mode) { return (mode == Mode::exclusive ? "dl:" : "dq:") + o.hex(); }

// A waiter is alive while its session has its name, or as long as it said so. A name that this very session waited for and got says nothing.
std::string LeaseTable::alive(std::string_view row) const {
  const std::string name = fmt::format("IS_USED_LOCK(CONCAT(IF({0}.mode='X','dl:','dq:'),{0}.owner))", row);
  const std::string by_time = fmt::format("{}.live>{}", row, setup_.clock);
  if (!setup_.named) return by_time;
  return fmt::format("IF({}.live=0,COALESCE({},CONNECTION_ID())<>CONNECTION_ID(),{})", row, name, by_time);
}

// ---- reading ----------------------------------------------------------------------------------------------------------------

Result<LeaseTable::Seen> LeaseTable::parse(const Answer& r, Deadline sent) {
  Seen seen;
  seen.sent = sent;
  if (r.rows.empty()) return seen;
  const auto version = r.unsigned_number(0), fence = r.unsigned_number(1);
  const auto now = r.number(3), updated = r.number(4);
  auto holders = decode(r.text(2));
  if (!version || !fence || !now || !updated || !holders) return fail(Errc::protocol, "");
  seen.exists = true;
  seen.version = *version;
  seen.state.fence = *fence;
  seen.now = *now;
  seen.updated = *updated;
  seen.started = r.number(5);
  seen.started_until = r.number(6);
  seen.ticket = r.unsigned_number(7);
  seen.queue = r.has(8);
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

Result<LeaseTable::Seen> LeaseTable::read(Connection& c, const Asking& a, Deadline until) {
  const Owner& me = a.ask.owner;
  std::vector<std::string> taking;
  std::string sql = fmt::format("SELECT l.version,l.fence,l.state,{},l.updated,l.started,l.started_until", setup_.clock);
  if (a.first) {  // is there a queue at all? A third of the price of looking who is alive in it
    sql += ",NULL,(SELECT MAX(w.ticket) FROM dlock_wait w WHERE w.name=l.name)";
  } else {
    // My ticket is read from my row, never remembered: a row that somebody deleted means that I do not wait any more.
    const std::string mine = fmt::format("(SELECT o.ticket FROM dlock_wait o WHERE o.name=l.name AND o.owner='{}')", me.hex());
    const std::string before = fmt::format(
        "(SELECT CONCAT(w.ticket,' ',w.mode,' ',w.owner,' ',w.permits) FROM dlock_wait w WHERE w.name=l.name AND "
        "w.ticket<COALESCE({},~0) AND w.owner<>'{}' AND {} ORDER BY w.ticket DESC LIMIT 1",
        mine, me.hex(), alive("w"));
    sql += fmt::format(",{},COALESCE({} OFFSET {}),{}))", mine, before, std::max(a.distance, 1u) - 1, before);
  }
  if (setup_.named) {
    if (!a.give_up.empty()) sql += fmt::format(",RELEASE_LOCK('{}')", a.give_up);
    for (const std::string& name : {hold_name(me), queue_name(me, a.ask.mode)}) {
      if (std::find(c.names.begin(), c.names.end(), name) != c.names.end()) continue;
      if (std::find(taking.begin(), taking.end(), name) != taking.end()) continue;
      sql += fmt::format(",GET_LOCK('{}',0)", name);
      taking.push_back(name);
    }
  }
  sql += fmt::format(" FROM dlock_lock l WHERE l.name={}", hex(a.name));
  const Deadline sent = Clock::now();
  auto r = c.query("read the lock", sql, until);
  if (!r) return fail(std::move(r.error()));
  auto seen = parse(*r, sent);
  if (!seen) return fail(damaged(c));
  if (!seen->exists) return seen;
  if (!a.give_up.empty()) std::erase(c.names, a.give_up);
  const std::size_t at = 9 + (setup_.named && !a.give_up.empty());
  for (std::size_t i = 0; i < taking.size(); ++i)
    if (r->text(at + i) == "1") c.names.push_back(taking[i]);
  prolong(*seen, me);

  if (!a.first && seen->queue) {  // one who lives and came before me
    const std::string_view text = r->text(8);
    const auto space = text.find(' ');
    LockState::Waiter w;
    const auto mode = parse_mode(text.substr(std::min(space + 1, text.size()), 1));
    const auto owner = text.size() >= space + 35 ? Owner::parse(text.substr(space + 3, 32)) : std::nullopt;
    if (!mode || !owner) return fail(damaged(c));
    w.mode = *mode;
    w.owner = *owner;
    w.ticket = 1;  // below any other: mine follows
    // The row of a grant whose owner has not deleted it yet.
    if (!in_force(seen->state, w.owner, seen->now)) seen->state.waiters.push_back(std::move(w));
    // Who is not exclusive may run together with those ahead: then all of them count.
    if (a.ask.mode != Mode::exclusive)
      if (auto ok = read_all_ahead(c, a, *seen, until); !ok) return fail(std::move(ok.error()));
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

// Read after the holders: one of those ahead may be granted in between, and then the version has moved.
Result<void> LeaseTable::read_all_ahead(Connection& c, const Asking& a, Seen& seen, Deadline until) {
  auto r = c.query(
      "read the queue",
      fmt::format("SELECT w.ticket,w.mode,w.owner,w.permits FROM dlock_wait w WHERE w.name={}{} AND w.owner<>'{}' AND {} "
                  "ORDER BY w.ticket",
                  hex(a.name), seen.ticket ? fmt::format(" AND w.ticket<{}", *seen.ticket) : "", a.ask.owner.hex(), alive("w")),
      until);
  if (!r) return fail(std::move(r.error()));
  seen.state.waiters.clear();
  for (std::size_t i = 0; i < r->rows.size(); ++i) {
    LockState::Waiter w;
    const auto mode = parse_mode(r->text(1, i));
    const auto owner = Owner::parse(r->text(2, i));
    if (!mode || !owner) return fail(damaged(c));
    if (in_force(seen.state, *owner, seen.now)) continue;
    w.mode = *mode;
    w.owner = *owner;
    w.ticket = r->unsigned_number(0, i).value_or(0);
    w.limit = static_cast<unsigned>(r->unsigned_number(3, i).value_or(1));
    seen.state.waiters.push_back(std::move(w));
  }
  return {};
}

// A waiter whose process is stopped keeps its session, so its name. Where the key has been free for long enough for all who are ahead to
// claim it, they lose their turn. Free means no holder at all: "no conflict for me" would let readers pass a writer.
Result<void> LeaseTable::pass_the_frozen(Connection& c, const Asking& a, Seen& seen, Deadline until) {
  const bool any_ahead =
      std::any_of(seen.state.waiters.begin(), seen.state.waiters.end(), [&](const auto& w) { return w.owner != a.ask.owner; });
  if (!setup_.named || !seen.ticket || !any_ahead) return {};
  Micros free_since = seen.updated;
  for (const auto& h : seen.state.holders) free_since = std::max(free_since, h.free_at());
  if (seen.now - free_since <= setup_.claim) return {};
  auto r = c.query("read the queue",
                   fmt::format("SELECT COUNT(*),MAX(w.since) FROM dlock_wait w WHERE w.name={} AND w.ticket<{} AND {}",
                               hex(a.name), *seen.ticket, alive("w")),
                   until);
  if (!r) return fail(std::move(r.error()));
  const auto count = r->number(0);
  free_since = std::max(free_since, r->number(1).value_or(0));  // a head that has only just come was not slow
  if (count && seen.now - free_since > *count * setup_.claim)
    std::erase_if(seen.state.waiters, [&](const auto& w) { return w.owner != a.ask.owner; });
  return {};
}

Result<LeaseTable::Seen> LeaseTable::look(Connection& c, const std::string& name, Deadline until) {
  const Deadline sent = Clock::now();
  auto r =
      c.query("read the lock",
              fmt::format("SELECT l.version,l.fence,l.state,{},l.updated,l.started,l.started_until,NULL,NULL FROM dlock_lock l "
                          "WHERE l.name={}",
                          setup_.clock, hex(name)),
              until);
  if (!r) return fail(std::move(r.error()));
  auto seen = parse(*r, sent);
  if (!seen) return fail(damaged(c));
  return seen;
}

// ---- writing ----------------------------------------------------------------------------------------------------------------

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

Result<void> LeaseTable::back_off(unsigned conflict, Deadline until) {
  if (Clock::now() >= until) return fail(Errc::unavailable, "others change this lock all the time");
  if (conflict > 1)
    nap(Duration{200 * (1LL << std::min(conflict, 8u))} * (1 + Clock::now().time_since_epoch().count() / 64 % 8) / 8, -1);
  return {};
}

// ---- deciding ---------------------------------------------------------------------------------------------------------------

LeaseTable::Target LeaseTable::target(const Seen& seen, const LockState::Ask& ask) {
  Target t;
  const auto& ahead = seen.state.waiters;
  if (!ahead.empty() && ahead.back().owner != ask.owner) {  // no row of mine: somebody deleted it
    t.owner = ahead.back().owner;
    t.name = queue_name(t.owner, ahead.back().mode);
    return t;
  }
  if (ahead.size() > 1) {
    const auto& before = ahead[ahead.size() - 2];
    t.owner = before.owner;
    t.name = queue_name(before.owner, before.mode);
    return t;
  }
  const LockState::Holder* first = nullptr;
  std::size_t living = 0;
  for (const auto& h : seen.state.holders) {
    if (h.deadline <= seen.now) continue;
    if (ask.mode == Mode::shared && h.mode != Mode::exclusive) continue;
    ++living;
    if (!first || h.free_at() < first->free_at()) first = &h;
  }
  if (!first) return t;
  t.owner = first->owner;
  t.name = hold_name(first->owner);
  t.holder = true;
  t.any_of_several = ask.mode == Mode::permit && living > 1;
  return t;
}

// A grant in one READ and one UPDATE; where others wait, in one READ, INSERT, READ, the wait, READ, UPDATE and DELETE.
Result<LeaseTable::Outcome> LeaseTable::acquire(Connection& c, Asking& a, Deadline until) {
  const Owner& me = a.ask.owner;
  Deadline decided_on{};
  for (unsigned conflicts = 0;;) {
    auto seen = read(c, a, until);
    if (!seen) return fail(std::move(seen.error()));
    a.give_up.clear();
    if (!seen->exists) {
      if (auto made = make_row(c, a.name, until); !made) return fail(std::move(made.error()));
      continue;
    }
    const bool held = in_force(seen->state, me, seen->now);
    if (std::exchange(a.first, false) && seen->queue && !held) {
      if (a.ask.wait)
        if (auto ok = queue_up(c, a, until); !ok) return fail(std::move(ok.error()));
      continue;
    }
    if (auto ok = pass_the_frozen(c, a, *seen, until); !ok) return fail(std::move(ok.error()));

    LockState s = seen->state;
    LockState::Ask ask = a.ask;
    ask.token_floor = static_cast<FencingToken>(std::max<Micros>(seen->now, 0));
    Outcome out{s.acquire(ask, seen->now), held, seen->sent, seen->now};
    out.conflicts = conflicts;
    for (const auto& h : seen->state.holders)
      if (h.free_at() > seen->now && h.owner != me && !out.in_the_way) out.in_the_way = h;
    out.idle = !out.in_the_way;
    out.version = seen->version;

    if (std::holds_alternative<LockState::Granted>(out.answer)) {
      seen->holders.key = a.key;
      out.holders = shortened(*seen, s, me);
      if (!held) {
        out.holders.granted[me] = seen->now;
        const auto done = swap(c, a.name, seen->version, out.holders, s.fence, "", "", until);
        if (!done) return fail(done.error());
        if (!*done) {
          if (auto ok = back_off(++conflicts, until); !ok) return fail(std::move(ok.error()));
          continue;
        }
        ++out.version;
      }
      if (seen->ticket || seen->queue || !held) {
        // Nothing to delete where no row of mine was ever written: the first reading saw no queue.
        if (seen->ticket || held)
          if (auto ok = leave_queue(c, a.name, me, seen->ticket, a.ask.mode == Mode::exclusive && !held, until); !ok)
            return fail(std::move(ok.error()));
      }
      return out;
    }
    if (std::holds_alternative<LockState::Busy>(out.answer)) return out;
    if (!seen->ticket) {
      if (auto ok = queue_up(c, a, until); !ok) return fail(std::move(ok.error()));
      continue;  // who is ahead of me now?
    }
    out.target = target(*seen, ask);
    return out;
  }
}

Result<LeaseTable::Renewed> LeaseTable::renew(Connection& c, const std::string& name, const Owner& me, Micros ttl,
                                              Deadline until) {
  for (unsigned conflicts = 0;;) {
    auto seen = look(c, name, until);
    if (!seen) return fail(std::move(seen.error()));
    prolong(*seen, me);
    Renewed out;
    out.sent = seen->sent;
    LockState s = seen->state;
    if (seen->exists) out.token = s.renew(me, ttl, seen->now);
    if (!out.token) return out;
    out.mine = *s.holder(me, seen->now);
    out.holders = shortened(*seen, s, me);
    const auto done = swap(c, name, seen->version, out.holders, s.fence, "", "", until);
    if (!done) return fail(done.error());
    out.version = seen->version + 1;
    if (*done) return out;
    if (auto ok = back_off(++conflicts, until); !ok) return fail(std::move(ok.error()));
  }
}

Result<bool> LeaseTable::release(Connection& c, const std::string& name, const Owner& me, const Known* known, Deadline until) {
  const bool named = std::find(c.names.begin(), c.names.end(), hold_name(me)) != c.names.end();
  // First the release is written, then it wakes.
  const std::string wake = named ? fmt::format("; DO RELEASE_LOCK('{}')", hold_name(me)) : "";
  if (known) {
    Holders rest = known->holders;
    const auto mine = std::find_if(rest.list.rbegin(), rest.list.rend(), [&](const auto& h) { return h.owner == me; });
    if (mine != rest.list.rend()) {
      const std::string in_time = fmt::format(" AND {}<{}", setup_.clock, mine->deadline);
      rest.list.erase(std::next(mine).base());
      rest.granted.erase(me);
      auto r = c.query("write the lock",
                       fmt::format("UPDATE dlock_lock SET state={},version=version+1,updated={} WHERE name={} AND version={}{}{}",
                                   hex(encode(rest)), setup_.clock, hex(name), known->version, in_time, wake),
                       until);
      if (!r) return fail(std::move(r.error()));
      if (r->results != (named ? 2u : 1u)) {
        c.distrust();
        return fail(Errc::timed_out, "write the lock: an answer is missing");
      }
      if (named) std::erase(c.names, hold_name(me));
      if (r->affected == 1) return true;
      ++conflicts_;
    }
  }
  for (unsigned conflicts = 0;;) {
    auto seen = look(c, name, until);
    if (!seen) return fail(std::move(seen.error()));
    prolong(*seen, me);
    LockState s = seen->state;
    if (!seen->exists || !s.release(me, seen->now)) return false;
    const auto done = swap(c, name, seen->version, shortened(*seen, s, me), s.fence, "", "", until);
    if (!done) return fail(done.error());
    if (*done) return true;
    if (auto ok = back_off(++conflicts, until); !ok) return fail(std::move(ok.error()));
  }
}

Result<std::pair<bool, bool>> LeaseTable::cancel(Connection& c, const std::string& name, const Owner& me, Deadline until) {
  auto r =
      c.query("leave the queue", fmt::format("DELETE FROM dlock_wait WHERE name={} AND owner='{}'", hex(name), me.hex()), until);
  if (!r) return fail(std::move(r.error()));
  const bool waited = r->affected > 0;
  const auto held = release(c, name, me, nullptr, until);
  if (!held) return fail(held.error());
  if (auto ok = free_names(c, me, until); !ok) return fail(std::move(ok.error()));
  return std::pair{waited, *held};
}

Result<std::size_t> LeaseTable::force_release(Connection& c, const std::string& name, FencingToken token, Deadline until) {
  for (unsigned conflicts = 0;;) {
    auto seen = look(c, name, until);
    if (!seen) return fail(std::move(seen.error()));
    LockState s = seen->state;
    s.expire(seen->now);
    const std::size_t removed = seen->exists ? s.force_release(token) : 0;
    if (removed == 0) return removed;
    Holders rest{seen->holders.key, s.holders, seen->holders.granted};
    const auto done = swap(c, name, seen->version, rest, s.fence, "", "", until);
    if (!done) return fail(done.error());
    if (*done) return removed;
    if (auto ok = back_off(++conflicts, until); !ok) return fail(std::move(ok.error()));
  }
}

Result<bool> LeaseTable::note_start(Connection& c, const std::string& name, const Owner& me, std::optional<Micros> at,
                                    Micros keep, Deadline until) {
  for (unsigned conflicts = 0;;) {
    auto seen = look(c, name, until);
    if (!seen) return fail(std::move(seen.error()));
    if (!seen->exists || !in_force(seen->state, me, seen->now)) return false;
    const std::string start = at ? fmt::format("{}", *at) : "NULL";
    const std::string end = at ? fmt::format("{}", after(seen->now, keep)) : "NULL";
    auto r =
        c.query("note the start",
                fmt::format("UPDATE dlock_lock SET started={},started_until={},version=version+1 WHERE name={} AND version={}",
                            start, end, hex(name), seen->version),
                until);
    if (!r) return fail(std::move(r.error()));
    if (r->affected == 1) return true;
    if (auto ok = back_off(++conflicts, until); !ok) return fail(std::move(ok.error()));
  }
}

// ---- looking ----------------------------------------------------------------------------------------------------------------

Result<std::size_t> LeaseTable::ahead(Connection& c, const std::string& name, const Owner& me, Deadline until) {
  auto r =
      c.query("read the queue",
              fmt::format("SELECT COUNT(*) FROM dlock_wait w JOIN dlock_wait m ON m.name=w.name AND m.owner='{}' WHERE w.name={} "
                          "AND w.ticket<m.ticket AND {}",
                          me.hex(), hex(name), alive("w")),
              until);
  if (!r) return fail(std::move(r.error()));
  return static_cast<std::size_t>(r->number(0).value_or(0));
}

Result<void> LeaseTable::say_alive(Connection& c, const std::string& name, const Owner& me, Deadline until) {
  auto r = c.query("stay in the queue",
                   fmt::format("UPDATE dlock_wait SET live={}+{} WHERE name={} AND owner='{}'", setup_.clock, setup_.patience,
                               hex(name), me.hex()),
                   until);
  if (!r) return fail(std::move(r.error()));
  return {};
}

Result<std::vector<LockState::Waiter>> LeaseTable::waiters(Connection& c, const std::string& name, Deadline until) {
  // Our own session's names count here: one who looks is not one who waits.
  const std::string here = setup_.named ? fmt::format(
                                              "IF(w.live=0,IS_USED_LOCK(CONCAT(IF(w.mode='X','dl:','dq:'),w.owner)) IS NOT NULL,"
                                              "w.live>{})",
                                              setup_.clock)
                                        : fmt::format("w.live>{}", setup_.clock);
  auto r = c.query(
      "read the queue",
      fmt::format("SELECT w.owner,w.mode,w.ticket,w.permits,w.who FROM dlock_wait w WHERE w.name={} AND {} ORDER BY w.ticket",
                  hex(name), here),
      until);
  if (!r) return fail(std::move(r.error()));
  std::vector<LockState::Waiter> out;
  for (std::size_t i = 0; i < r->rows.size(); ++i) {
    const auto owner = Owner::parse(r->text(0, i));
    const auto mode = parse_mode(r->text(1, i));
    if (!owner || !mode) continue;
    LockState::Waiter w;
    w.owner = *owner;
    w.mode = *mode;
    w.ticket = r->unsigned_number(2, i).value_or(0);
    w.limit = static_cast<unsigned>(r->unsigned_number(3, i).value_or(1));
    w.meta = r->text(4, i);
    out.push_back(std::move(w));
  }
  return out;
}

// Names in byte order, with the record of each.
Result<Answer> LeaseTable::keys(Connection& c, const std::string& prefix, Deadline until) {
  return c.query("list the locks",
                 fmt::format("SELECT name FROM dlock_lock WHERE LEFT(name,{})={} ORDER BY name", prefix.size(), hex(prefix)),
                 until);
}

}  // namespace dlock::mysql
