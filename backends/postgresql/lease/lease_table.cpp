// SPDX-License-Identifier: Apache-2.0
// Decisions: read, let LockState decide, write if the row has not changed.
#include "postgresql/lease/lease_table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include "core/text.hpp"
#include "postgresql/client/client.hpp"

namespace dlock::postgresql {
namespace {

constexpr std::size_t longest_who = 4000;

// The bell of a session, below the numbers of tickets. Other programs use small numbers, and
// hashes.
std::uint64_t new_bell() {
  const Owner random = Owner::random();
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < 8; ++i) n = n << 8U | random.bytes[i];
  return (1ULL << 61U) | (n >> 4U);
}

// Tokens of equal width compare as text.
std::pair<std::string, std::string> last_run(const Holders& holders, const Owner& me,
                                             std::string_view ended) {
  const auto h = std::find_if(holders.list.rbegin(), holders.list.rend(),
                              [&](const auto& one) { return one.owner == me; });
  if (ended.empty() || h == holders.list.rend()) return {};
  const auto since = holders.granted.find(me);
  return {fmt::format("{:020}", h->token),
          fmt::format(" {} {} {}", ended, since == holders.granted.end() ? h->since : since->second,
                      h->meta.substr(0, longest_who))};
}

// What LockState made of the holders that were read.
Holders changed(const Holders& before, const LockState& s) {
  Holders out{before.key, s.holders, {}};
  for (const auto& h : out.list) {
    const auto granted = before.granted.find(h.owner);
    out.granted[h.owner] = granted == before.granted.end() ? h.since : granted->second;
  }
  return out;
}

const Statement bell_statement{"dlock_bell", "SELECT pg_try_advisory_lock($1::bigint)"};
const Statement unlock_statement{"dlock_unlock", "SELECT pg_advisory_unlock($1::bigint)"};
// Only when the owner is no holder any more. A bell is heard by a waiter, if there is one.
const Statement ring_bell{
    "dlock_ring",
    "SELECT pg_advisory_unlock($2::bigint) FROM dlock_wait w WHERE w.name=$1 AND NOT EXISTS(SELECT "
    "FROM dlock_lock l WHERE l.name=w.name AND strpos(l.state,$3)>0) LIMIT 1"};
const Statement end_hold{
    "dlock_end_hold",
    "SELECT pg_advisory_unlock($2::bigint) WHERE NOT EXISTS(SELECT FROM dlock_lock l WHERE "
    "l.name=$1 AND strpos(l.state,$3)>0)"};
const Statement end_wait{
    "dlock_end_wait",
    "SELECT pg_advisory_unlock($2::bigint) WHERE NOT EXISTS(SELECT FROM dlock_wait w WHERE "
    "w.name=$1 AND w.ticket=$2::bigint)"};
const Statement revoke_statement{
    "", "UPDATE dlock_lock SET revoked=$3::bigint WHERE name=$1 AND version=$2::bigint"};
const Statement start_statement{
    "",
    "UPDATE dlock_lock SET started=NULLIF($3,'')::bigint,started_until=NULLIF($4,'')::bigint,"
    "version=version+1 WHERE name=$1 AND version=$2::bigint"};

}  // namespace

Result<void> LeaseTable::back_off(unsigned conflict, Deadline until) {
  ++conflicts_;
  if (Clock::now() >= until) return fail(Errc::unavailable, "others change this lock all the time");
  if (conflict > 1)
    nap(Duration{200 * (1LL << std::min(conflict, 8u))} *
            (1 + Clock::now().time_since_epoch().count() / 64 % 8) / 8,
        -1);
  return {};
}

LeaseTable::Target LeaseTable::target(const Seen& seen, const LockState::Ask& ask) {
  const auto& ahead = seen.state.waiters;  // the last one is we
  if (ahead.size() > 1) {
    const auto& before = ahead[ahead.size() - 2];
    return {.ticket = before.ticket, .owner = before.owner};
  }
  const LockState::Holder* first = nullptr;
  std::size_t living = 0;
  for (const auto& h : seen.state.holders) {
    if (h.deadline <= seen.now) continue;
    if (ask.mode == Mode::shared && h.mode != Mode::exclusive) continue;
    ++living;
    if (!first || h.free_at() < first->free_at()) first = &h;
  }
  if (!first) return {};
  return {.ticket = first->ticket,
          .owner = first->owner,
          .holder = true,
          .any_of_several = ask.mode == Mode::permit && living > 1};
}

// The locks of the session that its change of the key ends.
void LeaseTable::add_ends(const Connection& c, const std::string& name, const Owner& me,
                          Behind behind, std::vector<Call>& calls) const {
  if (behind == Behind::nothing) return;
  const bool hold = behind == Behind::end_of_hold;
  for (const std::uint64_t ticket : c.locks) {
    calls.push_back({hold ? end_hold : end_wait, {name, std::to_string(ticket)}});
    if (hold) calls.back().values.push_back(me.hex());
  }
  if (hold && c.bell != 0) calls.push_back({ring_bell, {name, std::to_string(c.bell), me.hex()}});
}
// In that order: what was ended returned a row.
void LeaseTable::note_ends(Connection& c, std::span<const Rows> answers) {
  std::size_t at = 0;
  std::erase_if(c.locks, [&](std::uint64_t) { return !answers[at++].rows.empty(); });
  if (at < answers.size() && !answers[at].rows.empty()) c.bell = 0;
}

void LeaseTable::add_bell(Connection& c, std::vector<Call>& calls) const {
  if (!setup_.wakes || c.bell != 0) return;
  c.bell = new_bell();
  calls.push_back({bell_statement, {std::to_string(c.bell)}});
}

Result<bool> LeaseTable::swap(Connection& c, const std::string& name, const Owner* me,
                              const Known& next, const Also& also, Deadline until) {
  std::vector<Call> calls;
  if (also.behind == Behind::end_of_wait) add_bell(c, calls);
  Holders holders = next.holders;
  if (also.behind == Behind::end_of_wait) holders.list.back().ticket = c.bell;
  const std::size_t at = calls.size();
  calls.push_back({also.leaves ? leave_ : swap_,
                   {name, std::to_string(next.version), std::to_string(next.fence), encode(holders),
                    also.run_head, also.run_tail, std::to_string(also.before)}});
  if (also.leaves) {
    calls.back().values.push_back(std::to_string(*also.leaves));
    calls.back().values.emplace_back(also.sweep ? "t" : "f");
  }
  if (me) add_ends(c, name, *me, also.behind, calls);
  const bool ends = calls.size() > at + 1;
  TRY(answers, c.exchange("write the lock", calls, until));
  if (ends) note_ends(c, std::span{answers}.subspan(at + 1));
  return !answers[at].rows.empty();
}

// A grant of a free key in one UPDATE; with other waiters an UPDATE without effect; INSERT and READ;
// the wait and READ; UPDATE and DELETE: four exchanges.
Result<LeaseTable::Answered> LeaseTable::acquire(Connection& c, Asking& a, Deadline until) {
  const Owner& me = a.ask.owner;
  if (std::exchange(a.untried, false) && a.ask.mode == Mode::exclusive) {
    TRY(taken, take_free(c, a, until));
    if (taken) return std::move(*taken);
    if (a.ask.wait) {  // most likely it is held
      TRY(seen, join(c, a, until));
      a.seen = std::move(seen);
    }
  }
  bool made = false;
  for (unsigned conflicts = 0;;) {
    auto read_now = a.seen ? Result<Seen>(*std::exchange(a.seen, std::nullopt)) : read(c, a, until);
    if (!read_now) return fail(std::move(read_now.error()));
    Seen& seen = *read_now;
    if (!seen.exists) {
      // a trigger or a policy hides it, or it is deleted again
      if (std::exchange(made, true)) TRY_VOID(back_off(++conflicts, until));
      // The first version is a time: the row of a key whose row was deleted must differ from one
      // that was read before.
      TRY_VOID(
          c.query("make the lock", {make_row_, {a.name, encode(Holders{a.key, {}, {}})}}, until));
      continue;
    }
    TRY(passed, pass_the_frozen(c, a, seen, until));
    const bool held = seen.state.holder(me, seen.now) != nullptr;
    LockState s = seen.state;
    LockState::Ask ask = a.ask;
    ask.token_floor = static_cast<FencingToken>(std::max<Micros>(seen.now, 0));
    Answered out{.answer = s.acquire(ask, seen.now),
                 .held = held,
                 .sent = seen.sent,
                 .now = seen.now,
                 .version = seen.version};
    for (const auto& h : seen.state.holders)
      if (h.free_at() > seen.now && h.owner != me && !out.in_the_way) out.in_the_way = h;
    out.idle = a.room.has_value();

    if (std::holds_alternative<LockState::Granted>(out.answer)) {
      if (!held && seen.old) continue;  // reads again
      seen.holders.key = a.key;
      out.known = {seen.version, s.fence, changed(seen.holders, s)};
      Also also{.leaves = seen.ticket, .sweep = passed};
      const bool keeps_ticket = seen.ticket && a.ask.mode == Mode::exclusive;
      if (setup_.wakes && !keeps_ticket) also.behind = Behind::end_of_wait;
      if (!held) {
        if (!keeps_ticket) out.known.holders.list.back().ticket = 0;
        out.known.holders.granted[me] = seen.now;
        TRY(done, swap(c, a.name, &me, out.known, also, until));
        if (!done) {
          TRY_VOID(back_off(++conflicts, until));
          continue;
        }
        if (also.behind == Behind::end_of_wait) out.known.holders.list.back().ticket = c.bell;
        ++out.known.version;
      }
      return out;
    }
    if (std::holds_alternative<LockState::Busy>(out.answer)) return out;
    if (!seen.ticket) {
      TRY(joined, join(c, a, until));
      a.seen = std::move(joined);
      continue;
    }
    out.target = target(seen, ask);
    return out;
  }
}

Result<std::optional<LeaseTable::Answered>> LeaseTable::take_free(Connection& c, const Asking& a,
                                                                  Deadline until) {
  // thirty years: the server adds it to its time, and does not saturate
  constexpr Micros longest_ttl = 1'000'000'000'000'000;
  if (a.ask.ttl > longest_ttl) return std::optional<Answered>{};
  // A statement that names no version does not age by itself: one that is executed after we gave it
  // up would be a grant without owner. So it has a latest time, on the server's clock, and leaves
  // time for a wait for the row. Its token is that clock.
  const Deadline sent = Clock::now();
  const Micros bound =
      c.server_time(until - std::min<Clock::duration>(c.row_wait(), (until - sent) / 2));
  std::vector<Call> calls;
  add_bell(c, calls);
  LockState decided;
  const auto answer = decided.acquire(a.ask, 0);
  LockState::Holder& mine = decided.holders.front();
  mine.ticket = setup_.wakes ? c.bell : 0;
  calls.push_back({take_,
                   {a.name,
                    fmt::format("{}{}\nH {} {} {} ", holders_magic, percent_encode(a.key),
                                mine.owner.hex(), static_cast<char>(mine.mode), mine.ticket),
                    fmt::format(" {} ", mine.slot), std::to_string(a.ask.ttl),
                    fmt::format(" {} {}\n", mine.delay, mine.meta.empty() ? "-" : mine.meta),
                    encode({a.key, {}, {}}), std::to_string(bound)}});
  TRY(answers, c.exchange("take the lock", calls, until));
  const Rows& r = answers.back();
  if (r.rows.empty()) return std::optional<Answered>{};
  const auto version = r.number<std::uint64_t>(0);
  const auto token = r.number<FencingToken>(1);
  if (!version || !token) {
    c.distrust();
    return fail(malformed_reply("take the lock", c.at().text()));
  }
  const auto now = static_cast<Micros>(*token);
  mine.token = *token;
  mine.since = now;
  mine.deadline = now + a.ask.ttl;
  Answered out{.answer = answer, .held = false, .sent = sent, .now = now, .version = *version};
  std::get<LockState::Granted>(out.answer).token = *token;
  out.known = {*version, *token, {a.key, decided.holders, {{a.ask.owner, now}}}};
  return std::optional{std::move(out)};
}

Result<LeaseTable::Renewed> LeaseTable::renew(Connection& c, const std::string& name,
                                              const Owner& me, Micros ttl, Deadline until,
                                              std::string_view ended) {
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    Renewed out;
    out.sent = seen.sent;
    LockState s = seen.state;
    if (seen.exists) out.token = s.renew(me, ttl, seen.now);
    if (!out.token) return out;
    out.mine = *s.holder(me, seen.now);
    out.revoked = *out.token <= seen.revoked;
    out.known = {seen.version, s.fence, changed(seen.holders, s)};
    Also also;
    std::tie(also.run_head, also.run_tail) = last_run(seen.holders, me, ended);
    TRY(done, swap(c, name, &me, out.known, also, until));
    ++out.known.version;
    if (done) return out;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<bool> LeaseTable::release(Connection& c, const std::string& name, const Owner& me,
                                 const Known* known, Deadline until, std::string_view ended) {
  if (known) {
    Known next = *known;
    Also also{.behind = Behind::end_of_hold};
    std::tie(also.run_head, also.run_tail) = last_run(next.holders, me, ended);
    auto& list = next.holders.list;
    const auto mine =
        std::find_if(list.rbegin(), list.rend(), [&](const auto& h) { return h.owner == me; });
    if (mine != list.rend()) {
      also.before = mine->deadline;
      list.erase(std::next(mine).base());
      TRY(done, swap(c, name, &me, next, also, until));
      if (done) return true;
      ++conflicts_;
    }
  }
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    LockState s = seen.state;
    if (!seen.exists || !s.release(me, seen.now)) return false;
    Also also{.behind = Behind::end_of_hold};
    std::tie(also.run_head, also.run_tail) = last_run(seen.holders, me, ended);
    TRY(done, swap(c, name, &me, {seen.version, s.fence, changed(seen.holders, s)}, also, until));
    if (done) return true;
    TRY_VOID(back_off(++conflicts, until));
  }
}

Result<void> LeaseTable::ring(Connection& c, const std::string& name, Deadline until) {
  std::vector<Call> calls;
  for (const std::uint64_t ticket : c.locks)
    calls.push_back({unlock_statement, {std::to_string(ticket)}});
  if (c.bell != 0) calls.push_back({ring_bell, {name, std::to_string(c.bell), "no owner"}});
  if (calls.empty()) return {};
  TRY(answers, c.exchange("wake the next", calls, until));
  note_ends(c, answers);
  return {};
}

Result<void> LeaseTable::adopt(Connection& c, const LockState::Holder& h, Deadline until) {
  if (!setup_.wakes || h.ticket == 0) return {};
  TRY(r, c.query("take the ticket", {bell_statement, {std::to_string(h.ticket)}}, until));
  if (r.text(0) == "t") c.locks.insert(h.ticket);
  return {};
}

Result<bool> LeaseTable::cancel(Connection& c, const std::string& name, const Owner& me,
                                int waiting, Deadline until) {
  TRY_VOID(c.query("leave the queue", {cancel_, {name, me.hex(), std::to_string(waiting)}}, until));
  TRY(held, release(c, name, me, nullptr, until));
  TRY_VOID(ring(c, name, until));
  return held;
}

Result<std::size_t> LeaseTable::force_release(Connection& c, const std::string& name,
                                              FencingToken token, Deadline until) {
  for (unsigned conflicts = 0;;) {
    TRY(seen, look(c, name, until));
    LockState s = seen.state;
    s.expire(seen.now);
    const std::size_t removed = seen.exists ? s.force_release(token) : 0;
    if (removed == 0) return removed;
    TRY(done, swap(c, name, nullptr, {seen.version, s.fence, changed(seen.holders, s)}, {}, until));
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
                   {revoke_statement, {name, std::to_string(seen.version), std::to_string(newest)}},
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
    TRY(r, c.query(
               "note the start",
               {start_statement,
                {name, std::to_string(seen.version), change.is ? std::to_string(change.is->at) : "",
                 change.is ? std::to_string(change.is->until) : ""}},
               until));
    if (r.affected == 1) return Noted::yes;
    TRY_VOID(back_off(++conflicts, until));
  }
}

}  // namespace dlock::postgresql
