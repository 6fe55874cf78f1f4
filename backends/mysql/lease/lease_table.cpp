// SPDX-License-Identifier: Apache-2.0
// Decisions: read, let LockState decide, write if the row has not changed.
#include "mysql/lease/lease_table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include "mysql/client/client.hpp"

namespace dlock::mysql {

Result<void> LeaseTable::back_off(unsigned conflict, Deadline until) {
  if (Clock::now() >= until) return fail(Errc::unavailable, "others change this lock all the time");
  if (conflict > 1)
    nap(Duration{200 * (1LL << std::min(conflict, 8u))} *
            (1 + Clock::now().time_since_epoch().count() / 64 % 8) / 8,
        -1);
  return {};
}

LeaseTable::Target LeaseTable::target(const Seen& seen, const LockState::Ask& ask) {
  Target t;
  const auto& ahead = seen.state.waiters;
  if (!ahead.empty() && ahead.back().owner != ask.owner) {  // our row is gone: it was deleted
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
  t.name =
      seen.wake.empty() || first->mode != Mode::exclusive ? hold_name(first->owner) : seen.wake;
  t.holder = true;
  t.any_of_several = ask.mode == Mode::permit && living > 1;
  return t;
}

// A grant of a free key in one UPDATE; else, or where a replica would execute that, which is
// read-only itself, in one READ and one UPDATE. With other waiters: an UPDATE without effect; INSERT
// and READ; the wait and READ; UPDATE and DELETE: four exchanges.
Result<LeaseTable::Answered> LeaseTable::acquire(Connection& c, Asking& a, Deadline until) {
  const Owner& me = a.ask.owner;
  bool join = false;
  if (std::exchange(a.untried, false) && a.ask.mode == Mode::exclusive &&
      !c.facts().statement_log) {
    TRY(taken, take_free(c, a, until));
    if (taken) return std::move(*taken);
    join = a.ask.wait;  // most likely it is held
    a.first &= !join;
  }
  bool marked = false;
  for (unsigned conflicts = 0;;) {
    auto read_now = a.seen ? Result<Seen>(*std::exchange(a.seen, std::nullopt))
                           : read(c, a, std::exchange(join, false), until);
    if (!read_now) return fail(std::move(read_now.error()));
    Seen& seen = *read_now;
    if (!seen.exists) {
      TRY_VOID(make_row(c, a, until));
      continue;
    }
    const bool held = seen.state.holder(me, seen.now) != nullptr;
    if (std::exchange(a.first, false) && seen.queue && !held) {
      join = a.ask.wait;
      continue;
    }
    TRY(passed, pass_the_frozen(c, a, seen, until));

    LockState s = seen.state;
    LockState::Ask ask = a.ask;
    ask.token_floor = static_cast<FencingToken>(std::max<Micros>(seen.now, 0));
    Answered out{s.acquire(ask, seen.now), held, seen.sent, seen.now};
    for (const auto& h : seen.state.holders)
      if (h.free_at() > seen.now && h.owner != me && !out.in_the_way) out.in_the_way = h;
    out.idle = a.room.has_value();
    out.version = seen.version;

    if (std::holds_alternative<LockState::Granted>(out.answer)) {
      seen.holders.key = a.key;
      out.known.holders = shortened(seen, s, me);
      if (!held) {
        out.known.holders.granted[me] = seen.now;
        TRY(done, grant(c, a, seen, out.known.holders, s.fence, passed, until));
        if (!done) {
          TRY_VOID(back_off(++conflicts, until));
          continue;
        }
        ++out.version;
      } else if (seen.ticket || seen.queue) {
        (void)leave_queue(c, a.name, me, seen.ticket, until);
      }
      out.known.version = out.version;
      return out;
    }
    if (std::holds_alternative<LockState::Busy>(out.answer)) return out;
    if (!seen.ticket) {
      join = true;  // and reads again which waiters are ahead
      continue;
    }
    // never, unless another writer changed it (lease_table.hpp, 4.)
    if (!seen.marked && !std::exchange(marked, true)) {
      TRY_VOID(mark(c, a.name, until));
      continue;
    }
    out.target = target(seen, ask);
    return out;
  }
}

Result<LeaseTable::Renewed> LeaseTable::renew(Connection& c, const std::string& name,
                                              const Owner& me, Micros ttl, Deadline until,
                                              std::string_view ended) {
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    TRY_VOID(writable(c.at(), seen.read_only));
    prolong(seen, me);
    Renewed out;
    out.sent = seen.sent;
    LockState s = seen.state;
    if (seen.exists) out.token = s.renew(me, ttl, seen.now);
    if (!out.token) return out;
    out.mine = *s.holder(me, seen.now);
    out.revoked = *out.token <= seen.revoked;
    out.holders = shortened(seen, s, me);
    TRY(done,
        swap(c, name, seen.version, out.holders, s.fence, run_in_sql(seen, me, ended), until));
    out.version = seen.version + 1;
    if (done) return out;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<bool> LeaseTable::release(Connection& c, const std::string& name, const Owner& me,
                                 Known* known, Deadline until, std::string_view ended) {
  const bool mine = known && std::any_of(known->holders.list.begin(), known->holders.list.end(),
                                         [&](const auto& h) { return h.owner == me; });
  if (known && (known->ttl != 0 || mine)) {
    const bool named = std::find(c.names.begin(), c.names.end(), hold_name(me)) != c.names.end();
    const bool belled = !known->wake.empty() && c.bell == known->wake;
    if (belled) {
      TRY(r, give_back(c, name, me, *known, true, "", until, ended));
      if (r.affected == 1) {
        known->wake.clear();
        return true;
      }
    }
    // The release is written first, then it wakes.
    const std::string bell = belled ? c.bell : named ? hold_name(me) : "";
    TRY(r, all_of(c, "write the lock", bell.empty() ? 1 : 2,
                  give_back(c, name, me, *known, false,
                            bell.empty() ? "" : fmt::format(";DO RELEASE_LOCK('{}')", bell), until,
                            ended)));
    if (belled) {
      c.bell.clear();
      known->wake.clear();
    } else if (named) {
      std::erase(c.names, hold_name(me));
    }
    if (r.affected == 1) return true;
    ++conflicts_;
  }
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    prolong(seen, me);
    LockState s = seen.state;
    if (!seen.exists || !s.release(me, seen.now)) return false;
    TRY(done, swap(c, name, seen.version, shortened(seen, s, me), s.fence,
                   run_in_sql(seen, me, ended), until));
    if (done) return true;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<std::pair<bool, bool>> LeaseTable::cancel(Connection& c, const std::string& name,
                                                 const Owner& me, Deadline until) {
  auto r = c.query(
      "leave the queue",
      fmt::format("DELETE FROM dlock_wait WHERE name={} AND owner='{}'", hex(name), me.hex()),
      until);
  // a row that cannot be deleted keeps no grant
  const auto held = release(c, name, me, nullptr, until);
  if (!r) return fail(std::move(r.error()));
  if (!held) return fail(held.error());
  const bool waited = r->affected > 0;
  TRY_VOID(free_names(c, me, until));
  return std::pair{waited, *held};
}

Result<std::size_t> LeaseTable::force_release(Connection& c, const std::string& name,
                                              FencingToken token, Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    LockState s = seen.state;
    s.expire(seen.now);
    const std::size_t removed = seen.exists ? s.force_release(token) : 0;
    if (removed == 0) return removed;
    Holders rest{seen.holders.key, s.holders, seen.holders.granted};
    TRY(done, swap(c, name, seen.version, rest, s.fence, "", until));
    if (done) return removed;
    TRY_VOID(back_off(++conflicts, until));
  }
}

// The mark is the newest token of those asked, and names the version that it was decided on, as
// every other change: when it is executed late, it writes nothing. Tokens only rise, so a mark that
// is left asks no later grant. The version stays: nothing that others have decided depends on the
// mark.
Result<bool> LeaseTable::revoke(Connection& c, const std::string& name, FencingToken& newest,
                                Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    TRY_VOID(writable(c.at(), seen.read_only));
    const FencingToken most = newest == 0 ? UINT64_MAX : newest;
    bool any = false;
    for (const auto& h : seen.state.holders) {
      if (h.deadline <= seen.now || h.token > most) continue;
      newest = std::max(newest, h.token);
      any = true;
    }
    if (!any) return false;
    if (newest <= seen.revoked) return true;
    TRY(r, c.query("ask the holder to stop",
                   fmt::format("UPDATE dlock_lock SET revoked={} WHERE name={} AND version={}",
                               newest, hex(name), seen.version),
                   until));
    if (r.affected == 1) return true;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<Noted> LeaseTable::note_start(Connection& c, const std::string& name, const Owner& me,
                                     const StartChange& change, Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    if (!seen.exists || !seen.state.holder(me, seen.now)) return Noted::not_held;
    if (!change.fits(seen.start, seen.now)) return Noted::other_start;
    const std::string start = change.is ? fmt::format("{}", change.is->at) : "NULL";
    const std::string end = change.is ? fmt::format("{}", change.is->until) : "NULL";
    TRY(r, c.query("note the start",
                   fmt::format("UPDATE dlock_lock SET started={},started_until={},"
                               "version=version+1 WHERE name={} AND version={}",
                               start, end, hex(name), seen.version),
                   until));
    if (r.affected == 1) return Noted::yes;
    TRY_VOID(back_off(++conflicts, until));
  }
}

}  // namespace dlock::mysql
