// SPDX-License-Identifier: Apache-2.0
// Random sequences of every operation on LockState: after each step it must equal the model, field
// by field, and keep its promises, which are checked here once more without using either. Each
// sequence has its own seed, so a failure can be repeated alone; it prints every step that led to
// it.
//   DLOCK_TEST_SEQUENCES  how many (20,000)
// seed of the first sequence; each further one adds 1
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include "pure/lock_state_model.hpp"
#include "pure/random.hpp"
#include "support/repeated.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

using Acquisition = LockState::Acquisition;

std::string time(Micros t) { return t == never ? "never" : std::to_string(t); }
std::string show(const LockState::Answer& a) {
  if (const auto* g = std::get_if<LockState::Granted>(&a))
    return fmt::format("granted token {} ticket {} slot {}", g->token, g->ticket, g->slot);
  if (const auto* w = std::get_if<LockState::Waiting>(&a))
    return fmt::format("waiting rank {} free at {}", w->rank, time(w->free_at));
  return fmt::format("busy free at {}", time(std::get<LockState::Busy>(a).free_at));
}
std::string show(const Owner& o) { return o.hex().substr(30); }
std::string show(const LockState& s) {
  std::string out = fmt::format("  fence {} next ticket {}\n", s.fence, s.next_ticket);
  for (const auto& h : s.holders)
    out += fmt::format("  holder {} {} ticket {} token {} slot {} since {} until {} delay {} {}\n",
                       show(h.owner), static_cast<char>(h.mode), h.ticket, h.token, h.slot, h.since,
                       time(h.deadline), h.delay, h.meta);
  for (const auto& w : s.waiters)
    out += fmt::format("  waiter {} {} limit {} ticket {} until {}{} {}\n", show(w.owner),
                       static_cast<char>(w.mode), w.limit, w.ticket, time(w.live_until),
                       w.invited ? " invited" : "", w.meta);
  return out;
}

struct Totals {
  std::uint64_t steps = 0, grants = 0, waits = 0, slots_above_0 = 0, delays = 0, invitations = 0,
                forced = 0, renewals = 0;
};

class Sequence {
 public:
  Sequence(std::uint64_t seed, Totals& totals) : seed_(seed), random_(seed), totals_(totals) {}

  void run() {
    const std::uint64_t people = 2 + random_.below(6);
    mixed_ = random_.one_in(3);
    limit_ = static_cast<unsigned>(1 + random_.below(3));
    for (std::uint64_t i = 0; i < people; ++i) asks_.push_back(new_ask());
    for (std::uint64_t n = 10 + random_.below(40); n > 0; --n) {
      now_ += static_cast<Micros>(random_.one_in(4) ? random_.below(40) : random_.below(3));
      step();
      same(state_, model_.as_state(), "the state equals the model's");
      same(state_.free_at(), model_.free_at(), "free_at");
      same(state_.oldest_invitation_ends(), model_.oldest_invitation_ends(),
           "oldest_invitation_ends");
      promises();
      time_changes_nothing_before_free_at();
      ++totals_.steps;
    }
    // From here on the clock jumps. Leases may then come back to life, which the model does not
    // follow; no contender may be granted a taken lock.
    for (std::uint64_t n = random_.below(20); n > 0; --n) {
      now_ = std::max<Micros>(1, now_ + static_cast<Micros>(random_.below(60)) - 30);
      Acquisition& ask = asks_[random_.below(asks_.size())];
      vary(ask);
      const auto answer = state_.acquire(ask, now_);
      log_.push_back(fmt::format("{:4} {} {} acquire: {}", now_, show(ask.owner),
                                 static_cast<char>(ask.mode), show(answer)));
      if (const auto* grant = std::get_if<LockState::Granted>(&answer))
        newest_ = std::max(newest_, grant->token);
      const std::uint64_t what = random_.below(12);
      if (what == 0) state_.release(ask.owner, now_);
      if (what == 1) state_.renew(ask.owner, 20, now_);
      if (what == 2) state_.vanish(1 + random_.below(state_.next_ticket), now_);
      if (what == 3) state_.invite(now_, 10);
      if (what < 4)
        log_.push_back(fmt::format("{:4} {} then operation {}", now_, show(ask.owner), what));
      promises();
    }
  }

 private:
  // Owners are unique per acquisition, except that here one in four is reused: a late request may
  // meet its own lock-delay.
  Acquisition new_ask() {
    Acquisition ask;
    ask.owner.bytes[15] = static_cast<std::uint8_t>(++owners_);
    const std::uint64_t kind = random_.below(3);
    ask.mode = kind == 0 ? Mode::exclusive : kind == 1 ? Mode::shared : Mode::permit;
    if (!mixed_ && ask.mode == Mode::shared) ask.mode = Mode::permit;
    if (ask.mode == Mode::permit)
      ask.limit = mixed_ ? static_cast<unsigned>(1 + random_.below(4)) : limit_;
    ask.meta = "m" + std::to_string(owners_);
    vary(ask);
    return ask;
  }
  void vary(Acquisition& ask) {
    ask.ttl = random_.one_in(3) ? static_cast<Micros>(1 + random_.below(50)) : never;
    ask.delay = random_.one_in(3) ? static_cast<Micros>(random_.below(30)) : 0;
    ask.patience = random_.one_in(3) ? static_cast<Micros>(1 + random_.below(60)) : never;
    ask.wait = !random_.one_in(4);
    ask.token_floor = random_.one_in(5) ? static_cast<FencingToken>(now_) : 0;
  }

  template <class A, class B>
  void same(const A& have, const B& want, std::string_view what) {
    if (!(have == want)) broken(what);
  }
  void must(bool holds, std::string_view what) {
    if (!holds) broken(what);
  }
  [[noreturn]] void broken(std::string_view what) {
    std::string steps;
    for (const std::string& line : log_) steps += "  " + line + "\n";
    FAIL(what << "\nDLOCK_TEST_SEED=" << seed_ << " DLOCK_TEST_SEQUENCES=1 repeats it\nsteps:\n"
              << steps << "state:\n"
              << show(state_) << "model:\n"
              << show(model_.as_state()));
    std::abort();
  }

  void step() {
    const std::uint64_t who = random_.below(asks_.size());
    Acquisition& ask = asks_[who];
    const std::string stamp =
        fmt::format("{:4} {} {}", now_, show(ask.owner), static_cast<char>(ask.mode));
    switch (random_.below(16)) {
      default: return acquire(ask, stamp);
      case 8:
      case 9: return release(ask, stamp);
      case 10: {
        const bool was = model_.cancel(ask.owner);
        log_.push_back(stamp + " cancel");
        same(state_.cancel(ask.owner), was, "cancel");
        must(state_.rank_of(ask.owner) == state_.waiters.size(), "a cancelled waiter is gone");
        return;
      }
      case 11: return renew(ask, stamp);
      case 12: return vanish();
      case 13: return invite();
      case 14: return force();
      case 15: {
        log_.push_back(stamp + " leaves, another comes");
        if (!random_.one_in(4)) ask = new_ask();
        state_.expire(now_), model_.expire(now_);
        return;
      }
    }
  }

  void acquire(Acquisition& ask, const std::string& stamp) {
    vary(ask);
    const LockState before = state_;
    const LockState::Answer have = state_.acquire(ask, now_);
    log_.push_back(fmt::format("{} acquire ttl {} delay {} patience {} limit {} floor {}{}: {}",
                               stamp, time(ask.ttl), ask.delay, time(ask.patience), ask.limit,
                               ask.token_floor, ask.wait ? "" : " try", show(have)));
    same(show(have), show(model_.acquire(ask, now_)), "acquire");
    LockState again = state_;
    same(show(again.acquire(ask, now_)), show(have), "a repeated request has the same answer");
    same(again, state_, "a repeated request changes nothing");

    if (const auto* grant = std::get_if<LockState::Granted>(&have)) {
      ++totals_.grants;
      totals_.slots_above_0 += grant->slot > 0;
      if (const auto* h = before.holder(ask.owner, now_)) {
        same(h->token, grant->token, "a holder gets its own token again");
        return;
      }
      must(grant->token > newest_ && grant->token >= ask.token_floor,
           "tokens rise, and reach the floor");
      newest_ = grant->token;
      overtakes_no_waiter(before, *grant, ask);
    } else {
      totals_.waits += std::holds_alternative<LockState::Waiting>(have);
      must(!state_.holder(ask.owner, now_), "a contender without a grant holds nothing");
      must(ask.wait == std::holds_alternative<LockState::Waiting>(have),
           "a waiter is queued, a try is not");
      same(state_.holders.size(), before_expired(before).holders.size(),
           "without a grant the holders stay the same");
    }
  }
  LockState before_expired(LockState s) const {
    s.expire(now_);
    return s;
  }

  // The first waiter that could have run can still run, alone among its equals; no waiter ahead of
  // it was kept out.
  void overtakes_no_waiter(const LockState& before, const LockState::Granted& grant,
                           const Acquisition& ask) {
    for (const auto& w : before.waiters) {
      if (w.ticket >= grant.ticket || w.owner == ask.owner ||
          state_.rank_of(w.owner) == state_.waiters.size())
        continue;
      LockState then = state_;
      Acquisition first;
      first.owner = w.owner, first.mode = w.mode, first.limit = w.limit;
      must(std::holds_alternative<LockState::Granted>(then.acquire(first, now_)),
           "a grant passes only waiters that may run, too");
    }
  }

  void release(Acquisition& ask, const std::string& stamp) {
    const LockState before = before_expired(state_);
    const bool have = state_.release(ask.owner, now_);
    log_.push_back(fmt::format("{} release: {}", stamp, have));
    same(have, model_.release(ask.owner, now_), "release");
    must(!LockState{state_}.release(ask.owner, now_) && !state_.holder(ask.owner, now_),
         "a released lock is not held");
    same(before.holders.size() - state_.holders.size(), std::size_t{have},
         "a release opens its place at once, without lock-delay, and no other");
  }

  void renew(Acquisition& ask, const std::string& stamp) {
    const Micros ttl = random_.one_in(4) ? never : static_cast<Micros>(1 + random_.below(40));
    const bool held = state_.holder(ask.owner, now_) != nullptr;
    const auto have = state_.renew(ask.owner, ttl, now_);
    log_.push_back(fmt::format("{} renew {}: {}", stamp, time(ttl), have.value_or(0)));
    same(have, model_.renew(ask.owner, ttl, now_), "renew");
    same(have.has_value(), held, "renew keeps a held lease and revives none");
    if (!have) return;
    ++totals_.renewals;
    const Micros end = after(now_, ttl);
    must(!state_.holder(ask.owner, end) && state_.holder(ask.owner, end - 1),
         "a renewed lease ends ttl from now");
  }

  void vanish() {
    const std::uint64_t ticket = random_.below(state_.next_ticket + 1);
    LockState before = before_expired(state_);
    const bool have = state_.vanish(ticket, now_);
    log_.push_back(fmt::format("{:4} ticket {} vanishes: {}", now_, ticket, have));
    same(have, model_.vanish(ticket, now_), "vanish");
    must(!LockState{state_}.vanish(ticket, now_), "a ticket cannot vanish twice");
    for (const auto& h : before.holders) {
      if (h.ticket != ticket || h.deadline <= now_ || h.delay == 0) continue;
      ++totals_.delays;
      Acquisition other;
      other.owner.bytes[0] = 1;
      LockState soon = state_, late = state_;
      must(!std::holds_alternative<LockState::Granted>(soon.acquire(other, now_ + h.delay - 1)),
           "no contender may run during the lock-delay");
      late.expire(now_ + h.delay);
      for (const auto& left : late.holders) must(left.ticket != ticket, "the lock-delay ends");
    }
  }

  void invite() {
    const Micros claim = static_cast<Micros>(1 + random_.below(25));
    const auto have = state_.invite(now_, claim);
    log_.push_back(fmt::format("{:4} invite, claim {}: {}", now_, claim, have.size()));
    same(have, model_.invite(now_, claim), "invite");
    must(LockState{state_}.invite(now_, claim).empty(), "no waiter is invited twice");
    totals_.invitations += have.size();
    for (const auto& w : state_.waiters) {
      Acquisition ask;
      ask.owner = w.owner, ask.mode = w.mode, ask.limit = w.limit;
      LockState then = state_;
      const bool runs = std::holds_alternative<LockState::Granted>(then.acquire(ask, now_));
      must(!runs || w.invited, "every waiter that may run was invited");
      const bool told_now = std::find(have.begin(), have.end(), w.ticket) != have.end();
      must(!told_now || (runs && w.live_until <= now_ + claim),
           "an invited waiter may run and has the claim time");
      LockState late = state_;
      late.expire(now_ + claim);
      if (told_now)
        must(late.rank_of(w.owner) == late.waiters.size(),
             "a waiter that misses its invitation loses its place");
    }
  }

  void force() {
    FencingToken token = 0;
    if (!random_.one_in(4))
      token = state_.holders.empty() || random_.one_in(3)
                  ? 1 + random_.below(newest_ + 2)
                  : state_.holders[random_.below(state_.holders.size())].token;
    const std::size_t have = state_.force_release(token);
    log_.push_back(fmt::format("{:4} force token {}: {}", now_, token, have));
    same(have, model_.force_release(token), "force_release");
    for (const auto& h : state_.holders)
      must(token != 0 && h.token != token, "a holder released by force is gone");
    same(state_.fence, newest_, "the fence is unchanged");
    totals_.forced += have;
  }

  // Invariants, checked without the model.
  void promises() {
    same(state_.fence, newest_, "the fence is the newest token");
    const auto& in = state_.holders;
    const auto exclusive =
        std::count_if(in.begin(), in.end(), [](auto& h) { return h.mode == Mode::exclusive; });
    must(exclusive == 0 || in.size() == 1, "an exclusive holder is alone");
    if (!mixed_) must(in.size() <= limit_, "no more permits than the limit");
    for (const auto& a : in) {
      for (const auto& b : in) {
        if (&a != &b)
          must(a.token != b.token && a.ticket != b.ticket, "tokens and tickets are unique");
        if (&a != &b && a.mode == Mode::permit && b.mode == Mode::permit)
          must(a.slot != b.slot, "each permit has its own slot");
      }
      if (a.mode == Mode::permit && !mixed_) must(a.slot < limit_, "slots are below the limit");
    }
    must(std::is_sorted(state_.waiters.begin(), state_.waiters.end(),
                        [](auto& a, auto& b) { return a.ticket < b.ticket; }),
         "the queue is in order of arrival");
    must(std::is_sorted(in.begin(), in.end(), [](auto& a, auto& b) { return a.token < b.token; }),
         "holders are in order of their grants");
  }
  void time_changes_nothing_before_free_at() {
    LockState then = state_;
    then.expire(now_);
    const Micros until = std::min(then.free_at() - 1, now_ + 1000);
    const auto may_run = [](LockState s, Micros t) {
      std::vector<Owner> out;
      s.expire(t);
      for (auto& w : s.waiters) w.invited = false;
      const auto told = s.invite(t, never);
      for (const auto& w : s.waiters)
        if (std::find(told.begin(), told.end(), w.ticket) != told.end()) out.push_back(w.owner);
      return out;
    };
    same(may_run(then, now_), may_run(then, until),
         "before free_at, time alone lets no waiter run");
  }

  std::uint64_t seed_;
  Random random_;
  Totals& totals_;
  bool mixed_ = false;
  unsigned limit_ = 1;
  unsigned owners_ = 0;
  Micros now_ = 1000;
  FencingToken newest_ = 0;
  LockState state_;
  Model model_;
  std::vector<Acquisition> asks_;
  std::vector<std::string> log_;
};

}  // namespace

TEST_CASE("LockState does what its model does and keeps its promises", "[property]") {
  const char* set = std::getenv("DLOCK_TEST_SEQUENCES");
  const std::uint64_t sequences =
      set && *set ? std::strtoull(set, nullptr, 10) : test::repeated(20'000);
  Totals t;
  for (std::uint64_t i = 0; i < sequences; ++i) Sequence{seed() + i, t}.run();
  fmt::print(
      "{} sequences, {} steps: {} grants, {} waits, {} slots above 0, {} lock-delays, {} "
      "invitations, "
      "{} forced, {} renewals\n",
      sequences, t.steps, t.grants, t.waits, t.slots_above_0, t.delays, t.invitations, t.forced,
      t.renewals);
  // The sequences must have reached every kind of case.
  if (sequences >= 1000)
    for (const std::uint64_t n :
         {t.grants, t.waits, t.slots_above_0, t.delays, t.invitations, t.forced, t.renewals})
      CHECK(n > sequences / 20);
}
