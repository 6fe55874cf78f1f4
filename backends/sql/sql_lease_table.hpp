// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in the tables of a database: read, let LockState decide, write if the row has not
// changed. What the statements are, what wakes a waiter and why no wake-up is lost is the store's:
// its lease_table.hpp.
//
// dlock_lock has a row per key: holders, newest token, version. Every change of it is one UPDATE
// that names the version it was decided on; exclusion rests on that alone. A version is random: one
// that was counted would come again where the server has lost its last writes (a standby that was
// promoted, a backup), for another grant. dlock_wait has a row per waiter; rows only join at the
// tail, so the waiters seen ahead of another can only become fewer.
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
#include "sql/sql_lease_row.hpp"
#include "store/backend.hpp"

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

  using Row = SqlLeaseRow;
  using Waited = SqlLeaseWaited;
  using Known = SqlLeaseKnown;
  using Target = SqlLeaseTarget;
  using Answered = SqlLeaseAnswered;
  using Attempt = SqlLeaseAttempt;

  // Grants, queues or refuses. May be repeated.
  Result<Answered> acquire(Connection& c, Attempt& a, Deadline until) {
    const Owner& me = a.request.owner;
    bool join = false;
    if (std::exchange(a.untried, false) && a.request.mode == Mode::exclusive && takes_free(c)) {
      TRY(taken, take_free(c, a, until));
      if (taken) return std::move(*taken);
      join = a.request.wait;  // most likely it is held
    }
    bool made = false;
    for (unsigned conflicts = 0;;) {
      auto read_now = a.row ? Result<Row>(*std::exchange(a.row, std::nullopt))
                            : read(c, a, std::exchange(join, false), until);
      if (!read_now) return fail(std::move(read_now.error()));
      Row& row = *read_now;
      if (!row.exists) {
        // a trigger or a policy hides it, or it is deleted again
        if (std::exchange(made, true)) TRY_VOID(back_off(++conflicts, until));
        TRY_VOID(make_row(c, a, until));
        continue;
      }
      const bool held = row.state.holder(me, row.now) != nullptr;
      TRY(passed, pass_the_frozen(c, a, row, until));
      LockState s = row.state;
      LockState::Acquisition request = a.request;
      request.token_floor = static_cast<FencingToken>(std::max<Micros>(row.now, 0));
      Answered out{.answer = s.acquire(request, row.now),
                   .held = held,
                   .sent = row.sent,
                   .now = row.now,
                   .version = row.version};
      for (const auto& h : row.state.holders)
        if (h.free_at() > row.now && h.owner != me && !out.in_the_way) out.in_the_way = h;
      out.idle = a.room.has_value();

      if (std::holds_alternative<LockState::Granted>(out.answer)) {
        if (!held && row.old) continue;  // reads again
        row.holders.key = a.key;
        out.known = {held ? row.version : unique_number(), s.fence,
                     row.holders.changed_to(s, &me, setup_.skew)};
        if (held) return out;
        out.known.holders.granted[me] = row.now;
        TRY(done, grant(c, a, row, out.known, passed, until));
        if (!done) {
          TRY_VOID(back_off(++conflicts, until));
          continue;
        }
        return out;
      }
      if (std::holds_alternative<LockState::Busy>(out.answer)) return out;
      if (!row.ticket) {
        join = true;  // and reads again which waiters are ahead
        continue;
      }
      out.target = target(row, request);
      return out;
    }
  }

  using Renewed = SqlLeaseRenewed;
  // `ended`: how the job under the lease ended (RunEnd::text), for the record of the last run;
  // empty: there was none. `noted`: Lease::ended.
  Result<Renewed> renew(Connection& c, const std::string& name, const Owner& me, Micros ttl,
                        Deadline until, std::string_view ended = {}, std::string_view noted = {}) {
    for (unsigned conflicts = 0;;) {
      TRY(row, read_row(c, name, until));
      TRY_VOID(writable(c.at().text(), row.read_only));
      prolong(row, me);
      Renewed out;
      out.sent = row.sent;
      LockState s = row.state;
      if (row.exists) out.token = s.renew(me, ttl, row.now);
      if (!out.token) return out;
      s.note_end(me, noted);
      out.mine = *s.holder(me, row.now);
      out.revoked = *out.token <= row.revoked;
      out.known = {unique_number(), s.fence, row.holders.changed_to(s, &me, setup_.skew)};
      const Change change{row.version, out.known, run_of(row.holders, me, ended)};
      TRY(done, swap(c, name, change, until));
      if (done) return out;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  // True: it was held. `known`: saves the read; without its bell if that was rung, or not needed.
  Result<bool> release(Connection& c, const std::string& name, const Owner& me, Known* known,
                       Deadline until, std::string_view ended = {}) {
    if (known) {
      Known next = *known;
      next.version = unique_number();
      auto& list = next.holders.list;
      const auto mine =
          std::find_if(list.rbegin(), list.rend(), [&](const auto& h) { return h.owner == me; });
      if (mine != list.rend()) {
        const auto run = run_of(next.holders, me, ended);
        const Micros end = mine->deadline;
        list.erase(std::next(mine).base());
        next.holders.granted.erase(me);
        const Change change{known->version, next, run, &me, end};
        TRY(done, give_back(c, name, change, known->wake, until));
        if (done) return true;
        ++conflicts_;
      }
    }
    for (unsigned conflicts = 0;;) {
      TRY(row, read_row(c, name, until));
      prolong(row, me);
      LockState s = row.state;
      if (!row.exists || !s.release(me, row.now)) return false;
      const Known next{unique_number(), s.fence, row.holders.changed_to(s, &me, setup_.skew)};
      TRY(done, swap(c, name, {row.version, next, run_of(row.holders, me, ended), &me}, until));
      if (done) return true;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  Result<std::size_t> force_release(Connection& c, const std::string& name, FencingToken token,
                                    Deadline until) {
    for (unsigned conflicts = 0;;) {
      TRY(row, read_row(c, name, until));
      LockState s = row.state;
      s.expire(row.now);
      const std::size_t removed = row.exists ? s.force_release(token) : 0;
      if (removed == 0) return removed;
      const Known next{unique_number(), s.fence, row.holders.changed_to(s, nullptr, setup_.skew)};
      TRY(done, swap(c, name, {row.version, next}, until));
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
      TRY(row, read_row(c, name, until));
      TRY_VOID(writable(c.at().text(), row.read_only));
      const FencingToken most = newest == 0 ? UINT64_MAX : newest;
      bool any = false;
      for (const auto& h : row.state.holders) {
        if (h.deadline <= row.now || h.token > most) continue;
        newest = std::max(newest, h.token);
        any = true;
      }
      if (!any) return false;
      if (newest <= row.revoked) return true;
      TRY(done, write_revoked(c, name, row.version, newest, until));
      if (done) return true;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  Result<Noted> note_start(Connection& c, const std::string& name, const Owner& me,
                           const StartChange& change, Deadline until) {
    for (unsigned conflicts = 0;;) {
      TRY(row, read_row(c, name, until));
      if (!row.exists || !row.state.holder(me, row.now)) return Noted::not_held;
      if (!change.fits(row.start, row.now)) return Noted::other_start;
      TRY(done, write_start(c, name, row.version, change.is, until));
      if (done) return Noted::yes;
      TRY_VOID(back_off(++conflicts, until));
    }
  }

  virtual Result<Row> read_row(Connection&, const std::string& name, Deadline until) = 0;
  std::uint64_t conflicts() const noexcept { return conflicts_; }

 protected:
  struct Change {
    std::uint64_t version;  // that it was decided on
    const Known& next;
    std::optional<EndedRun> run{};
    const Owner* ended = nullptr;  // whose grant it ends
    Micros before = never;         // on the server's clock: not later
  };

  // ---- the statements ----
  // Whether a free key is taken by one statement here.
  virtual bool takes_free(const Connection&) const { return true; }
  virtual Result<std::optional<Answered>> take_free(Connection&, const Attempt&, Deadline) = 0;
  // `join`: puts the owner into the queue before it, in the same exchange.
  virtual Result<Row> read(Connection&, Attempt&, bool join, Deadline until) = 0;
  virtual Result<void> make_row(Connection&, const Attempt&, Deadline until) = 0;
  // The row of the grant's owner goes, too, and those up to ticket `passed`.
  virtual Result<bool> grant(Connection&, const Attempt&, const Row&, Known& next,
                             std::uint64_t passed, Deadline until) = 0;
  virtual Result<bool> swap(Connection&, const std::string& name, const Change&,
                            Deadline until) = 0;
  // Of the known row, and wakes the next one.
  virtual Result<bool> give_back(Connection&, const std::string& name, const Change&,
                                 std::string& bell, Deadline until) = 0;
  virtual Result<bool> write_revoked(Connection&, const std::string& name, std::uint64_t version,
                                     FencingToken, Deadline until) = 0;
  virtual Result<bool> write_start(Connection&, const std::string& name, std::uint64_t version,
                                   const std::optional<Start>&, Deadline until) = 0;
  virtual Result<Rows> all_ahead(Connection&, const Attempt&, const Row&, Deadline until) = 0;
  // Of those ahead that live: their number, when the last one came, and its ticket; nothing: nobody
  // is passed here.
  virtual Result<std::optional<Rows>> count_ahead(Connection&, const Attempt&, const Row&,
                                                  Deadline until) = 0;
  // Whose end tells that a waiter or a holder is gone.
  virtual std::string lock_of(const LockState::Waiter&) const = 0;
  virtual std::string lock_of(const LockState::Holder&, const Row&) const = 0;

  // What a contender needs besides, of columns 10 and 12: the ticket of its own place, and one
  // waiter that came first and lives; all of those, if it is not exclusive: it may run together
  // with them. They are read after the holders: one of those ahead may be granted in between, and
  // then the version has moved. Not counted: the row of a grant whose owner has not deleted it yet.
  Result<void> add_waiters(Connection& c, const Attempt& a, const Rows& r, Row& row,
                           Deadline until) {
    row.ticket = parse_number<std::uint64_t>(r.text(10));
    prolong(row, a.request.owner);
    std::vector<std::optional<LockState::Waiter>> ahead;
    if (std::string_view rest = r.text(12); !rest.empty()) {
      const auto ticket = next_part(rest, ' '), mode = next_part(rest, ' '),
                 owner = next_part(rest, ' ');
      ahead.push_back(waiter_of(ticket, mode, owner, rest));
      if (a.request.mode != Mode::exclusive) {
        TRY(all, all_ahead(c, a, row, until));
        ahead.clear();
        for (std::size_t i = 0; i < all.rows.size(); ++i)
          ahead.push_back(
              waiter_of(all.text(0, i), all.text(1, i), all.text(2, i), all.text(3, i)));
      }
    }
    auto& waiters = row.state.waiters;
    for (auto& w : ahead) {
      if (!w) return fail(damaged_record(c.at().text()));
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
  Setup setup_;
  std::uint64_t conflicts_ = 0;

 private:
  // On Galera each node judges by its own clock.
  void prolong(Row& row, const Owner& me) const {
    for (auto& h : row.state.holders)
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

  Target target(const Row& row, const LockState::Acquisition& request) const {
    const auto& ahead = row.state.waiters;  // the last one is we
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

  // A waiter whose process is stopped keeps its session. If there has been room long enough for all
  // waiters ahead to claim it, they lose their turn. Room means: none of them has to wait for a
  // holder, and neither do we; "no conflict for me" would let readers pass a writer. Until the next
  // grant it only grows: it counts from when it was seen first, although holders renew. Who does not
  // queue comes behind all that do. The ticket of the last one that was passed; 0: nobody was.
  Result<std::uint64_t> pass_the_frozen(Connection& c, Attempt& a, Row& row, Deadline until) {
    const auto& waiters = row.state.waiters;
    const bool any_ahead = std::any_of(waiters.begin(), waiters.end(),
                                       [&](const auto& w) { return w.owner != a.request.owner; });
    const auto fits = [&](const auto& one) {
      LockState s{.holders = row.state.holders};
      const LockState::Acquisition request{
          .owner = one.owner, .mode = one.mode, .limit = one.limit, .wait = false};
      return std::holds_alternative<LockState::Granted>(s.acquire(request, row.now));
    };
    const auto before = std::exchange(a.room, std::nullopt);
    if (!any_ahead || !fits(a.request) || !std::all_of(waiters.begin(), waiters.end(), fits))
      return 0;
    Micros free_since = row.updated;
    for (const auto& h : row.state.holders)
      if (h.free_at() <= row.now) free_since = std::max(free_since, h.free_at());
    if (before && before->fence == row.state.fence)
      free_since = std::min(free_since, before->since);
    a.room = {row.state.fence, free_since};
    if (row.now - free_since <= setup_.claim) return 0;
    TRY(r, count_ahead(c, a, row, until));
    if (!r) return 0;
    const auto count = parse_number<Micros>(r->text(0));
    // a head that has only just come was not slow
    free_since = std::max(free_since, parse_number<Micros>(r->text(1)).value_or(0));
    if (!count || row.now - free_since <= *count * setup_.claim) return 0;
    std::erase_if(row.state.waiters, [&](const auto& w) { return w.owner != a.request.owner; });
    return parse_number<std::uint64_t>(r->text(2)).value_or(0);
  }
};

}  // namespace dlock
