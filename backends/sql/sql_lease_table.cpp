// SPDX-License-Identifier: Apache-2.0
#include "sql/sql_lease_table.hpp"
#include <algorithm>
#include <iterator>
#include <utility>
#include "core/text.hpp"

namespace dlock {
namespace {

Result<void> back_off(unsigned conflict, Deadline until) {
  if (Clock::now() >= until) return fail(Errc::unavailable, "others change this lock all the time");
  if (conflict > 1)
    nap(Duration{200 * (1LL << std::min(conflict, 8u))} *
            (1 + Clock::now().time_since_epoch().count() / 64 % 8) / 8,
        -1);
  return {};
}

}  // namespace

Result<SqlLeaseDecision> SqlLeaseTable::acquire(SqlSession& c, Attempt& a, Deadline until) {
  const Owner& me = a.request.owner;
  bool join = false;
  if (std::exchange(a.untried, false) && a.request.mode == Mode::exclusive && takes_free(c)) {
    TRY(taken, take_free(c, a, until));
    if (taken) return std::move(*taken);
    join = a.request.wait;  // most likely another owner holds the key
  }
  bool made = false;
  for (unsigned conflicts = 0;;) {
    auto read_now = a.row ? Result<SqlLeaseRow>(*std::exchange(a.row, std::nullopt))
                          : read(c, a, std::exchange(join, false), until);
    if (!read_now) return fail(std::move(read_now.error()));
    Row& row = *read_now;
    if (!row.exists) {
      // If the row is missing again, a trigger or a policy hides it, or somebody has deleted it.
      if (std::exchange(made, true)) TRY_VOID(back_off(++conflicts, until));
      TRY_VOID(c.ask("make the lock", statements().make_row,
                     {a.name, encode(Holders{a.key, {}, {}}), unique_number()}, until));
      continue;
    }
    const bool held = row.state.holder(me, row.now) != nullptr;
    TRY(passed, pass_the_stopped(c, a, row, until));
    LockState s = row.state;
    LockState::Acquisition request = a.request;
    request.token_floor = static_cast<FencingToken>(std::max<Micros>(row.now, 0));
    Decision out{.answer = s.acquire(request, row.now),
                 .held = held,
                 .sent = row.sent,
                 .now = row.now,
                 .version = row.version};
    for (const auto& h : row.state.holders)
      if (h.free_at() > row.now && h.owner != me && !out.in_the_way)
        out.in_the_way = row.view_of(h);
    out.idle = a.room.has_value();

    if (std::holds_alternative<LockState::Granted>(out.answer)) {
      if (!held && row.old) continue;  // no lease may start from an old row: read again
      row.holders.key = a.key;
      out.written = {held ? row.version : unique_number(), s.fence,
                     row.holders.changed_to(s, &me, setup_.skew)};
      if (held) return out;
      out.written.holders.granted[me] = row.now;
      TRY(done, grant(c, a, row, out.written, passed, until));
      if (!done) {
        TRY_VOID(back_off(++conflicts, until));
        continue;
      }
      return out;
    }
    if (std::holds_alternative<LockState::Busy>(out.answer)) return out;
    if (!row.ticket) {
      join = true;  // so that the next reading shows which waiters are ahead
      continue;
    }
    out.target = target(row, request);
    return out;
  }
}

Result<SqlLeaseRenewal> SqlLeaseTable::renew(SqlSession& c, const std::string& name,
                                             const Owner& me, Micros ttl, Deadline until,
                                             std::string_view ended, std::string_view noted) {
  for (unsigned conflicts = 0;;) {
    TRY(row, read_row(c, name, until));
    TRY_VOID(writable(c.where(), row.read_only));
    prolong(row, me);
    SqlLeaseRenewal out;
    out.sent = row.sent;
    LockState s = row.state;
    if (row.exists) out.token = s.renew(me, ttl, row.now);
    if (!out.token) return out;
    s.note_end(me, noted);
    out.mine = *s.holder(me, row.now);
    out.revoked = *out.token <= row.revoked;
    out.written = {unique_number(), s.fence, row.holders.changed_to(s, &me, setup_.skew)};
    const Change change{row.version, out.written, run_of(row.holders, me, ended)};
    TRY(done, write(c, name, change, until));
    if (done) return out;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<bool> SqlLeaseTable::release(SqlSession& c, const std::string& name, const Owner& me,
                                    SqlWrittenRow* written, Deadline until,
                                    std::string_view ended) {
  if (written) {
    SqlWrittenRow next = *written;
    next.version = unique_number();
    auto& list = next.holders.list;
    const auto mine =
        std::find_if(list.rbegin(), list.rend(), [&](const auto& h) { return h.owner == me; });
    if (mine != list.rend()) {
      const auto run = run_of(next.holders, me, ended);
      const Micros end = mine->deadline;
      list.erase(std::next(mine).base());
      next.holders.granted.erase(me);
      const Change change{written->version, next, run, &me, end};
      TRY(done, write_release(c, name, change, written->wake, until));
      if (done) return true;
    }
  }
  for (unsigned conflicts = 0;;) {
    TRY(row, read_row(c, name, until));
    prolong(row, me);
    LockState s = row.state;
    if (!row.exists || !s.release(me, row.now)) return false;
    const SqlWrittenRow next{unique_number(), s.fence, row.holders.changed_to(s, &me, setup_.skew)};
    TRY(done, write(c, name, {row.version, next, run_of(row.holders, me, ended), &me}, until));
    if (done) return true;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<std::size_t> SqlLeaseTable::force_release(SqlSession& c, const std::string& name,
                                                 FencingToken token, Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(row, read_row(c, name, until));
    LockState s = row.state;
    s.expire(row.now);
    const std::size_t removed = row.exists ? s.force_release(token) : 0;
    if (removed == 0) return removed;
    const SqlWrittenRow next{unique_number(), s.fence,
                             row.holders.changed_to(s, nullptr, setup_.skew)};
    TRY(done, write(c, name, {row.version, next}, until));
    if (done) return removed;
    TRY_VOID(back_off(++conflicts, until));
  }
}

// The mark (column `revoked`) is the newest token of the holders that are asked to stop. Like every
// other change, the statement that writes the mark names the version that was read, so a late
// execution writes nothing. Tokens only rise, so a mark that stays in the row does not ask a later
// holder to stop. The version stays the same, because no decision depends on the mark.
Result<bool> SqlLeaseTable::revoke(SqlSession& c, const std::string& name, FencingToken& newest,
                                   Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(row, read_row(c, name, until));
    TRY_VOID(writable(c.where(), row.read_only));
    const FencingToken most = newest == 0 ? UINT64_MAX : newest;
    bool any = false;
    for (const auto& h : row.state.holders) {
      if (h.deadline <= row.now || h.token > most) continue;
      newest = std::max(newest, h.token);
      any = true;
    }
    if (!any) return false;
    if (newest <= row.revoked) return true;
    TRY(done,
        c.ask("ask the holder to stop", statements().revoke, {name, row.version, newest}, until));
    if (done.affected == 1) return true;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<UpdateResult> SqlLeaseTable::note_start(SqlSession& c, const std::string& name,
                                               const Owner& me, const RunStartUpdate& change,
                                               Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(row, read_row(c, name, until));
    if (!row.exists || !row.state.holder(me, row.now)) return UpdateResult::not_held;
    if (!change.fits(row.start, row.now)) return UpdateResult::other_start;
    const RunStart start = change.is.value_or(RunStart{});
    TRY(done, c.ask("note the start", statements().start,
                    {name, row.version, start.at, start.until, unique_number()}, until));
    if (done.affected == 1) return UpdateResult::yes;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<void> SqlLeaseTable::add_waiters(SqlSession& c, const Attempt& a, const SqlRows& r, Row& row,
                                        Deadline until) {
  row.ticket = r.number<std::uint64_t>(10);
  prolong(row, a.request.owner);
  std::vector<std::optional<LockState::Waiter>> ahead;
  if (std::string_view rest = r.text(12); !rest.empty()) {
    const auto ticket = next_part(rest, ' '), mode = next_part(rest, ' '),
               owner = next_part(rest, ' ');
    ahead.push_back(waiter_of(ticket, mode, owner, rest));
    if (a.request.mode != Mode::exclusive) {
      TRY(all, c.ask("read the queue", statements().all_ahead,
                     {a.name, row.ticket.value_or(INT64_MAX), a.request.owner.hex()}, until));
      ahead.clear();
      for (std::size_t i = 0; i < all.rows.size(); ++i)
        ahead.push_back(waiter_of(all.text(0, i), all.text(1, i), all.text(2, i), all.text(3, i)));
    }
  }
  auto& waiters = row.state.waiters;
  for (auto& w : ahead) {
    if (!w) return fail(damaged_record(c.where()));
    if (!row.state.holder(w->owner, row.now)) waiters.push_back(std::move(*w));
  }
  if (!row.ticket) return {};
  LockState::Waiter w;
  w.owner = a.request.owner;
  w.mode = a.request.mode;
  w.limit = a.request.limit;
  w.ticket = *row.ticket;
  w.meta = a.request.meta;
  waiters.push_back(std::move(w));
  return {};
}

// On Galera each node has its own clock. So this function moves the ends of the leases of others
// later by the skew.
void SqlLeaseTable::prolong(Row& row, const Owner& me) const {
  for (auto& h : row.state.holders)
    if (h.owner != me) h.deadline = after(h.deadline, setup_.skew);
}

SqlWakeTarget SqlLeaseTable::target(const Row& row, const LockState::Acquisition& request) const {
  const auto& ahead = row.state.waiters;  // the last waiter is this contender
  if (ahead.size() > 1) return {.lock = lock_of(ahead[ahead.size() - 2])};
  const LockState::Holder* first = nullptr;
  std::size_t living = 0;
  for (const auto& h : row.state.holders) {
    if (h.deadline <= row.now) continue;
    if (request.mode == Mode::shared && h.mode != Mode::exclusive) continue;
    ++living;
    if (!first || h.free_at() < first->free_at()) first = &h;
  }
  if (!first) return {};
  return {.lock = lock_of(*first, row),
          .holder = true,
          .any_of_several = request.mode == Mode::permit && living > 1};
}

// Lets the contender pass waiters that do not claim a free key, and returns the ticket of the last
// waiter that was passed; 0: none. A waiter whose process is stopped keeps its session. If there
// has been room long enough for all waiters ahead to claim the key, they lose their turn. Room
// means that neither we nor any of them must wait for a holder. (If room for us were enough, a
// reader would pass a writer that must wait for other readers.) Until the next grant the room can
// only grow, even while holders renew, so the time counts from when the room was first seen. A
// contender that has no row in the queue counts as the last.
Result<std::uint64_t> SqlLeaseTable::pass_the_stopped(SqlSession& c, Attempt& a, Row& row,
                                                      Deadline until) {
  const auto& waiters = row.state.waiters;
  const bool any_ahead =
      std::ranges::any_of(waiters, [&](const auto& w) { return w.owner != a.request.owner; });
  const auto fits = [&](const auto& one) {
    LockState s{.holders = row.state.holders};
    const LockState::Acquisition request{
        .owner = one.owner, .mode = one.mode, .limit = one.limit, .wait = false};
    return std::holds_alternative<LockState::Granted>(s.acquire(request, row.now));
  };
  const auto before = std::exchange(a.room, std::nullopt);
  if (!any_ahead || !fits(a.request) || !std::ranges::all_of(waiters, fits)) return 0;
  Micros free_since = row.updated;
  for (const auto& h : row.state.holders)
    if (h.free_at() <= row.now) free_since = std::max(free_since, h.free_at());
  if (before && before->fence == row.state.fence) free_since = std::min(free_since, before->since);
  a.room = {row.state.fence, free_since};
  if (row.now - free_since <= setup_.claim) return 0;
  if (statements().count_ahead.sql.empty()) return 0;
  TRY(r, c.ask("read the queue", statements().count_ahead, {a.name, row.ticket.value_or(INT64_MAX)},
               until));
  const auto count = r.number<Micros>(0);
  // A waiter ahead that has only just come is not slow.
  free_since = std::max(free_since, r.number<Micros>(1).value_or(0));
  if (!count || row.now - free_since <= *count * setup_.claim) return 0;
  std::erase_if(row.state.waiters, [&](const auto& w) { return w.owner != a.request.owner; });
  return r.number<std::uint64_t>(2).value_or(0);
}

Result<bool> SqlLeaseTable::cancel(SqlSession& c, const std::string& name, const Owner& me,
                                   int waiting, Deadline until) {
  const auto left =
      c.ask("leave the queue", statements().leave, {name, me.hex(), std::int64_t{waiting}}, until);
  // Do this even if the row in the queue could not be deleted, because no grant may stay.
  const auto held = release(c, name, me, nullptr, until);
  if (!left) return fail(left.error());
  if (!held) return fail(held.error());
  TRY_VOID(release_locks(c, name, me, "", false, until));
  return *held;
}

Result<void> SqlLeaseTable::refresh_entry(SqlSession& c, const std::string& name, const Owner& me,
                                          Deadline until) {
  TRY_VOID(c.ask("stay in the queue", statements().stay, {name, me.hex(), setup_.patience}, until));
  return {};
}

Result<std::size_t> SqlLeaseTable::ahead(SqlSession& c, const std::string& name, const Owner& me,
                                         Deadline until) {
  TRY(r, c.ask("read the queue", statements().ahead, {name, me.hex()}, until));
  return r.number<std::size_t>(0).value_or(0);
}

Result<std::vector<LockState::Waiter>> SqlLeaseTable::waiters(SqlSession& c,
                                                              const std::string& name,
                                                              Deadline until) {
  TRY(r, c.ask("read the queue", statements().waiters, {name}, until));
  std::vector<LockState::Waiter> out;
  for (std::size_t i = 0; i < r.rows.size(); ++i)
    if (auto w = waiter_of(r.text(0, i), r.text(1, i), r.text(2, i), r.text(3, i))) {
      w->meta = r.text(4, i);
      out.push_back(std::move(*w));
    }
  return out;
}

Result<std::vector<std::string>> SqlLeaseTable::keys(SqlSession& c, const std::string& prefix,
                                                     Deadline until) {
  TRY(r, c.ask("list the locks", statements().keys, {prefix}, until));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < r.rows.size(); ++i)
    names.emplace_back(r.text(0, i).substr(prefix.size()));
  return names;
}

}  // namespace dlock
