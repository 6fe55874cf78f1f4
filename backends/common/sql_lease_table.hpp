// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in the tables of a database: read, let LockState decide, write if the row has not
// changed. What the statements are, what wakes a waiter and why no wake-up is lost is the store's:
// its lease_table.hpp.
//
// dlock_lock has a row per key: holders, newest token, version. Every change of it is one UPDATE
// that names the version it was decided on; exclusion rests on that alone. dlock_wait has a row per
// waiter; rows only join at the tail, so the waiters seen ahead of another can only become fewer.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "common/exchange.hpp"
#include "common/holders.hpp"
#include "common/sql_lease_seen.hpp"
#include "core/backend.hpp"

namespace dlock {

// `Connection`: one session of a server. `Rows`: an answer.
template <class Connection, class Rows>
class SqlLeaseTable {
 public:
  struct Setup {
    std::string_view clock;  // an SQL expression; the model test sets its own
    bool wakes = true;       // what wakes a waiter, and shows that it lives, exists here
    Micros skew = 0;         // a foreign lease ends so much later
    // without wake-ups: a waiter that is silent for this long is gone
    Micros patience = 6'000'000;
    Micros claim = 3'000'000;  // a free key is left to each waiter ahead for this long
  };
  explicit SqlLeaseTable(Setup setup) : setup_(setup) {}
  virtual ~SqlLeaseTable() = default;
  void set_wakes(bool wakes, Micros skew = 0) noexcept {
    setup_.wakes = wakes;
    setup_.skew = skew;
  }
  const Setup& setup() const noexcept { return setup_; }

  using Seen = SqlLeaseSeen;
  using Heard = SqlLeaseHeard;
  using Known = SqlLeaseKnown;
  using Target = SqlLeaseTarget;
  using Answered = SqlLeaseAnswered;
  using Asking = SqlLeaseAsking;

  // Grants, queues or refuses. May be repeated.
  Result<Answered> acquire(Connection& c, Asking& a, Deadline until) {
    const Owner& me = a.ask.owner;
    bool join = false;
    if (std::exchange(a.untried, false) && a.ask.mode == Mode::exclusive && takes_free(c)) {
      TRY(taken, take_free(c, a, until));
      if (taken) return std::move(*taken);
      join = a.ask.wait;  // most likely it is held
    }
    bool made = false;
    for (unsigned conflicts = 0;;) {
      auto read_now = a.seen ? Result<Seen>(*std::exchange(a.seen, std::nullopt))
                             : read(c, a, std::exchange(join, false), until);
      if (!read_now) return fail(std::move(read_now.error()));
      Seen& seen = *read_now;
      if (!seen.exists) {
        // a trigger or a policy hides it, or it is deleted again
        if (std::exchange(made, true)) TRY_VOID(back_off(++conflicts, until));
        TRY_VOID(make_row(c, a, until));
        continue;
      }
      const bool held = seen.state.holder(me, seen.now) != nullptr;
      TRY(passed, pass_the_frozen(c, a, seen, until));
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
        out.known = {seen.version, s.fence, seen.holders.changed_to(s, &me, setup_.skew)};
        if (held) return out;
        out.known.holders.granted[me] = seen.now;
        TRY(done, grant(c, a, seen, out.known, passed, until));
        if (!done) {
          TRY_VOID(back_off(++conflicts, until));
          continue;
        }
        ++out.known.version;
        return out;
      }
      if (std::holds_alternative<LockState::Busy>(out.answer)) return out;
      if (!seen.ticket) {
        join = true;  // and reads again which waiters are ahead
        continue;
      }
      out.target = target(seen, ask);
      return out;
    }
  }

  using Renewed = SqlLeaseRenewed;
  // `ended`: how the job under the lease ended (RunEnd::text), for the record of the last run;
  // empty: there was none.
  Result<Renewed> renew(Connection& c, const std::string& name, const Owner& me, Micros ttl,
                        Deadline until, std::string_view ended = {}) {
    for (unsigned conflicts = 0;;) {
      TRY(seen, look(c, name, until));
      TRY_VOID(writable(c.at().text(), seen.read_only));
      prolong(seen, me);
      Renewed out;
      out.sent = seen.sent;
      LockState s = seen.state;
      if (seen.exists) out.token = s.renew(me, ttl, seen.now);
      if (!out.token) return out;
      out.mine = *s.holder(me, seen.now);
      out.revoked = *out.token <= seen.revoked;
      out.known = {seen.version, s.fence, seen.holders.changed_to(s, &me, setup_.skew)};
      TRY(done, swap(c, name, {.next = out.known, .run = run_of(seen.holders, me, ended)}, until));
      ++out.known.version;
      if (done) return out;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  // True: it was held. `known`: saves the read; without its bell if that was rung, or not needed.
  Result<bool> release(Connection& c, const std::string& name, const Owner& me, Known* known,
                       Deadline until, std::string_view ended = {}) {
    if (known) {
      Known next = *known;
      auto& list = next.holders.list;
      const auto mine =
          std::find_if(list.rbegin(), list.rend(), [&](const auto& h) { return h.owner == me; });
      if (mine != list.rend()) {
        const auto run = run_of(next.holders, me, ended);
        const Micros end = mine->deadline;
        list.erase(std::next(mine).base());
        next.holders.granted.erase(me);
        const Change change{.next = next, .run = run, .ended = &me, .before = end};
        TRY(done, give_back(c, name, change, known->wake, until));
        if (done) return true;
        ++conflicts_;
      }
    }
    for (unsigned conflicts = 0;;) {
      TRY(seen, look(c, name, until));
      prolong(seen, me);
      LockState s = seen.state;
      if (!seen.exists || !s.release(me, seen.now)) return false;
      const Known next{seen.version, s.fence, seen.holders.changed_to(s, &me, setup_.skew)};
      TRY(done, swap(c, name, {.next = next, .run = run_of(seen.holders, me, ended), .ended = &me},
                     until));
      if (done) return true;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  Result<std::size_t> force_release(Connection& c, const std::string& name, FencingToken token,
                                    Deadline until) {
    for (unsigned conflicts = 0;;) {
      TRY(seen, look(c, name, until));
      LockState s = seen.state;
      s.expire(seen.now);
      const std::size_t removed = seen.exists ? s.force_release(token) : 0;
      if (removed == 0) return removed;
      const Known next{seen.version, s.fence, seen.holders.changed_to(s, nullptr, setup_.skew)};
      TRY(done, swap(c, name, {.next = next}, until));
      if (done) return removed;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  // Asks the holders in force to stop; false: there are none. `newest`: the newest token of those
  // asked, 0 before the first call. A repeated call asks no other holder.
  //
  // The mark is the newest token of those asked, and names the version that it was decided on, as
  // every other change: when it is executed late, it writes nothing. Tokens only rise, so a mark
  // that is left asks no later grant. The version stays: nothing that others have decided depends
  // on the mark.
  Result<bool> revoke(Connection& c, const std::string& name, FencingToken& newest,
                      Deadline until) {
    for (unsigned conflicts = 0;;) {
      TRY(seen, look(c, name, until));
      TRY_VOID(writable(c.at().text(), seen.read_only));
      const FencingToken most = newest == 0 ? UINT64_MAX : newest;
      bool any = false;
      for (const auto& h : seen.state.holders) {
        if (h.deadline <= seen.now || h.token > most) continue;
        newest = std::max(newest, h.token);
        any = true;
      }
      if (!any) return false;
      if (newest <= seen.revoked) return true;
      TRY(done, write_revoked(c, name, seen.version, newest, until));
      if (done) return true;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  Result<Noted> note_start(Connection& c, const std::string& name, const Owner& me,
                           const StartChange& change, Deadline until) {
    for (unsigned conflicts = 0;;) {
      TRY(seen, look(c, name, until));
      if (!seen.exists || !seen.state.holder(me, seen.now)) return Noted::not_held;
      if (!change.fits(seen.start, seen.now)) return Noted::other_start;
      TRY(done, write_start(c, name, seen.version, change.is, until));
      if (done) return Noted::yes;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  virtual Result<Seen> look(Connection&, const std::string& name, Deadline until) = 0;
  std::uint64_t conflicts() const noexcept { return conflicts_; }

 protected:
  struct Change {
    const Known& next;  // with the version that it was decided on
    std::optional<EndedRun> run{};
    const Owner* ended = nullptr;  // whose grant it ends
    Micros before = never;         // on the server's clock: not later
  };

  // ---- the statements ----
  // Whether a free key is taken by one statement here.
  virtual bool takes_free(const Connection&) const { return true; }
  virtual Result<std::optional<Answered>> take_free(Connection&, const Asking&, Deadline) = 0;
  // `join`: puts the owner into the queue before it, in the same exchange.
  virtual Result<Seen> read(Connection&, Asking&, bool join, Deadline until) = 0;
  virtual Result<void> make_row(Connection&, const Asking&, Deadline until) = 0;
  // The row of the grant's owner goes, too, and with `passed` all those before it.
  virtual Result<bool> grant(Connection&, const Asking&, const Seen&, Known& next, bool passed,
                             Deadline until) = 0;
  virtual Result<bool> swap(Connection&, const std::string& name, const Change&,
                            Deadline until) = 0;
  // Of the known row, and wakes the next one.
  virtual Result<bool> give_back(Connection&, const std::string& name, const Change&,
                                 std::string& bell, Deadline until) = 0;
  virtual Result<bool> write_revoked(Connection&, const std::string& name, std::uint64_t version,
                                     FencingToken, Deadline until) = 0;
  virtual Result<bool> write_start(Connection&, const std::string& name, std::uint64_t version,
                                   const std::optional<Start>&, Deadline until) = 0;
  virtual Result<Rows> all_ahead(Connection&, const Asking&, const Seen&, Deadline until) = 0;
  // Of those that live their number, and when the last one came; nothing: nobody is passed here.
  virtual Result<std::optional<Rows>> count_ahead(Connection&, const Asking&, const Seen&,
                                                  Deadline until) = 0;
  // Whose end tells that a waiter or a holder is gone.
  virtual std::string lock_of(const LockState::Waiter&) const = 0;
  virtual std::string lock_of(const LockState::Holder&, const Seen&) const = 0;

  // What a contender needs besides, of columns 10 and 12: the ticket of its own place, and one
  // waiter that came first and lives; all of those, if it is not exclusive: it may run together
  // with them. They are read after the holders: one of those ahead may be granted in between, and
  // then the version has moved. Not counted: the row of a grant whose owner has not deleted it yet.
  Result<void> add_waiters(Connection& c, const Asking& a, const Rows& r, Seen& seen,
                           Deadline until) {
    seen.ticket = parse_number<std::uint64_t>(r.text(10));
    prolong(seen, a.ask.owner);
    std::vector<std::optional<LockState::Waiter>> ahead;
    if (std::string_view rest = r.text(12); !rest.empty()) {
      const auto ticket = take_word(rest, ' '), mode = take_word(rest, ' '),
                 owner = take_word(rest, ' ');
      ahead.push_back(waiter_of(ticket, mode, owner, rest));
      if (a.ask.mode != Mode::exclusive) {
        TRY(all, all_ahead(c, a, seen, until));
        ahead.clear();
        for (std::size_t i = 0; i < all.rows.size(); ++i)
          ahead.push_back(
              waiter_of(all.text(0, i), all.text(1, i), all.text(2, i), all.text(3, i)));
      }
    }
    auto& waiters = seen.state.waiters;
    for (auto& w : ahead) {
      if (!w) return fail(damaged_record(c.at().text()));
      if (!seen.state.holder(w->owner, seen.now)) waiters.push_back(std::move(*w));
    }
    if (!seen.ticket) return {};
    LockState::Waiter w;
    w.owner = a.ask.owner;
    w.mode = a.ask.mode;
    w.limit = a.ask.limit;
    w.ticket = *seen.ticket;
    w.meta = a.ask.meta;
    waiters.push_back(std::move(w));
    return {};
  }
  Setup setup_;
  std::uint64_t conflicts_ = 0;

 private:
  // On Galera each node judges by its own clock.
  void prolong(Seen& seen, const Owner& me) const {
    for (auto& h : seen.state.holders)
      if (h.owner != me) h.deadline = after(h.deadline, setup_.skew);
  }
  Result<void> back_off(unsigned conflict, Deadline until) {
    ++conflicts_;
    if (Clock::now() >= until)
      return fail(Errc::unavailable, "others change this lock all the time");
    if (conflict > 1)
      nap(Duration{200 * (1LL << std::min(conflict, 8u))} *
              (1 + Clock::now().time_since_epoch().count() / 64 % 8) / 8,
          -1);
    return {};
  }

  Target target(const Seen& seen, const LockState::Ask& ask) const {
    const auto& ahead = seen.state.waiters;  // the last one is we
    if (ahead.size() > 1) return {.lock = lock_of(ahead[ahead.size() - 2])};
    const LockState::Holder* first = nullptr;
    std::size_t living = 0;
    for (const auto& h : seen.state.holders) {
      if (h.deadline <= seen.now) continue;
      if (ask.mode == Mode::shared && h.mode != Mode::exclusive) continue;
      ++living;
      if (!first || h.free_at() < first->free_at()) first = &h;
    }
    if (!first) return {};
    return {.lock = lock_of(*first, seen),
            .holder = true,
            .any_of_several = ask.mode == Mode::permit && living > 1};
  }

  // A waiter whose process is stopped keeps its session. If there has been room long enough for all
  // waiters ahead to claim it, they lose their turn. Room means: none of them has to wait for a
  // holder, and neither do we; "no conflict for me" would let readers pass a writer. Until the next
  // grant it only grows: it counts from when it was seen first, although holders renew. True: they
  // were passed.
  Result<bool> pass_the_frozen(Connection& c, Asking& a, Seen& seen, Deadline until) {
    const auto& waiters = seen.state.waiters;
    const bool any_ahead = std::any_of(waiters.begin(), waiters.end(),
                                       [&](const auto& w) { return w.owner != a.ask.owner; });
    const auto fits = [&](const LockState::Waiter& w) {
      LockState s{.holders = seen.state.holders};
      const LockState::Ask ask{.owner = w.owner, .mode = w.mode, .limit = w.limit, .wait = false};
      return std::holds_alternative<LockState::Granted>(s.acquire(ask, seen.now));
    };
    const auto before = std::exchange(a.room, std::nullopt);
    if (!seen.ticket || !any_ahead || !std::all_of(waiters.begin(), waiters.end(), fits))
      return false;
    Micros free_since = seen.updated;
    for (const auto& h : seen.state.holders)
      if (h.free_at() <= seen.now) free_since = std::max(free_since, h.free_at());
    if (before && before->fence == seen.state.fence)
      free_since = std::min(free_since, before->since);
    a.room = {seen.state.fence, free_since};
    if (seen.now - free_since <= setup_.claim) return false;
    TRY(r, count_ahead(c, a, seen, until));
    if (!r) return false;
    const auto count = parse_number<Micros>(r->text(0));
    // a head that has only just come was not slow
    free_since = std::max(free_since, parse_number<Micros>(r->text(1)).value_or(0));
    if (!count || seen.now - free_since <= *count * setup_.claim) return false;
    std::erase_if(seen.state.waiters, [&](const auto& w) { return w.owner != a.ask.owner; });
    return true;
  }
};

}  // namespace dlock
