// SPDX-License-Identifier: Apache-2.0
// Random operations on a store and on LockState: equal answers, equal state after each, and the
// same waiters woken. Used for every store that promises to decide as LockState does.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include "core/lock_state.hpp"

namespace dlock::test {

inline constexpr Micros model_claim = 2'000'000;

// The store under test. Each operation reports the time that it saw on the store's clock.
class ModelStore {
 public:
  virtual ~ModelStore() = default;
  virtual void clear(const std::vector<Owner>&) = 0;
  virtual void set_clock(Micros) = 0;  // only with Rules::sets_clock

  struct Acquired {
    std::optional<Micros> now;
    std::string verdict;  // "granted", "held", "waiting" or "busy"
    std::string figures;  // "<token> <slot>", "<rank> <free at, 0: never>", "<free at>"
  };
  virtual Acquired acquire(const LockState::Acquisition&) = 0;
  struct Counted {
    std::optional<Micros> now;
    std::int64_t count = 0;
  };
  virtual Counted release(const Owner&) = 0;
  virtual Counted force(FencingToken) = 0;
  // Asks the holders in force with this token or an older one to stop, as a request that may be
  // late or repeated. `count`: 0, there were none; 1 or more.
  virtual Counted revoke(FencingToken newest) = 0;
  struct Renewed {
    std::optional<Micros> now;
    std::optional<FencingToken> token;
    bool revoked = false;
  };
  virtual Renewed renew(const Owner&, Micros ttl) = 0;
  struct Cancelled {
    std::optional<Micros> now;
    bool waited = false, held = false;
  };
  virtual Cancelled cancel(const Owner&) = 0;
  virtual bool check(const Owner&) = 0;
  virtual bool check(FencingToken) = 0;
  // Its connection is gone, and the store has noticed. False: not possible in this store.
  virtual bool lose(const Owner&) { return false; }
  // The server loses what it wrote since it was told to remember, and all its connections, as one
  // that was restored, or a standby that was promoted. False: not possible in this store.
  virtual bool remember() { return false; }
  virtual void forget() {}

  // What is stored, formatted as by ModelRun::holder_text and waiter_text; without expired entries.
  struct Contents {
    std::set<std::string> holders;
    std::vector<std::string> waiters;  // in queue order
    std::optional<FencingToken> fence;
    std::set<Owner> woken;  // since the last look
    // The mark of a revocation is there, in a store that removes it with the next grant of a free
    // key.
    bool marked = false;
  };
  virtual Contents contents(Micros now, const std::vector<Owner>&) = 0;
};

class ModelRun {
 public:
  struct Rules {
    bool sets_clock = true;
    bool invites = true;      // waiters are invited, and lose their place when they do not claim it
    bool by_patience = true;  // a waiter that is silent for its patience is dropped
    bool renew_looks = true;  // a renewal also updates the queue
    bool graces = false;  // it may be asked for a place alone (LockState::Acquisition::queue_only)
  };
  ModelRun(ModelStore& store, Rules rules, unsigned seed)
      : store_(store), rules_(rules), random_(seed) {
    for (unsigned i = 0; i < 7; ++i) owners_.push_back(Owner::random());
  }

  static std::string holder_text(const LockState::Holder& h) {
    return fmt::format("{} {} {} {} {} {} {} {}", h.owner.hex(), static_cast<char>(h.mode), h.token,
                       h.slot, h.since, h.deadline, h.delay, h.meta);
  }
  // live_until and invited only where the store has them.
  std::string waiter_text(const LockState::Waiter& w) const {
    std::string s =
        fmt::format("{} {} {} {}", w.owner.hex(), static_cast<char>(w.mode), w.limit, w.meta);
    if (rules_.by_patience) s += fmt::format(" {}", w.live_until);
    if (rules_.invites) s += fmt::format(" {}", w.invited);
    return s;
  }

  void run(long steps, unsigned seed) {
    while (steps_ < steps) {
      new_sequence();
      const long end = steps_ + 20 + static_cast<long>(pick(80));
      CAPTURE(seed, steps_);
      while (steps_ < end) step();
    }
    for (const char* seen : {"granted", "held", "waiting", "busy", "released", "not held", "kept",
                             "lost", "cancelled", "forced", "asked to stop", "told to stop"}) {
      INFO(seen);
      CHECK(answers_[seen] > steps / 400);  // otherwise the run would prove little
    }
    if (rules_.invites) CHECK(wakeups_ > steps / 50);
    std::string tally;
    for (const auto& [what, n] : answers_) tally += fmt::format(" {}: {};", what, n);
    if (answers_["remembered"] > 0) CHECK(answers_["forgotten"] > steps / 400);
    WARN(steps_ << " operations, " << wakeups_ << " wake-ups, seed " << seed << ":" << tally);
  }

 private:
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
  // real time passes at about 150 us per step
  Micros scale() const { return rules_.sets_clock ? 1000 : 400; }

  void new_sequence() {
    store_.clear(owners_);
    state_ = {};
    marked_ = 0;
    remembered_.reset();
    loses_writes_ = pick(3) == 0;  // the others have long queues
    now_ = 1'700'000'000'000'000 + static_cast<Micros>(pick(1'000'000));
    asks_.clear();
    kind_ = pick(4);  // all exclusive, readers, permits, all mixed
    for (const Owner& owner : owners_) asks_.push_back(some_ask(owner));
  }
  LockState::Acquisition some_ask(const Owner& owner) {
    LockState::Acquisition ask;
    ask.owner = owner;
    const unsigned mode = kind_ == 0 ? 0 : kind_ == 3 ? pick(3) : pick(2) * kind_;
    ask.mode = mode == 0 ? Mode::exclusive : mode == 1 ? Mode::shared : Mode::permit;
    if (ask.mode == Mode::permit) ask.limit = 1 + pick(3);
    ask.ttl = scale() * (1 + pick(40));
    ask.delay = pick(3) == 0 ? scale() * pick(20) : 0;
    ask.patience = scale() * (1 + pick(60));
    if (!rules_.by_patience) ask.patience = never;
    ask.wait = pick(5) != 0;
    ask.meta = fmt::format("host=h{}&reason=a%7Cb", pick(100));
    return ask;
  }

  void step() {
    if (rules_.sets_clock) tick();
    if (loses_writes_ && pick(4) == 0) lose_writes();
    const LockState::Acquisition& ask = asks_[pick(static_cast<unsigned>(asks_.size()))];
    const Owner some =
        !state_.holders.empty() && pick(3)
            ? state_.holders[pick(static_cast<unsigned>(state_.holders.size()))].owner
            : ask.owner;
    switch (pick(13)) {
      default: acquire(ask); break;
      case 6: lose(ask.owner) ? void() : acquire(ask); break;
      case 7: release(some); break;
      case 8: renew(some, pick(4) ? ask.ttl : scale()); break;
      case 9:
        cancel(pick(2) && !state_.waiters.empty()
                   ? state_.waiters[pick(static_cast<unsigned>(state_.waiters.size()))].owner
                   : ask.owner);
        break;
      case 10:
        force(pick(3) && !state_.holders.empty()
                  ? state_.holders[pick(static_cast<unsigned>(state_.holders.size()))].token
                  : 0);
        break;
      case 11: rules_.sets_clock ? check(some) : acquire(ask); break;
      case 12:  // mostly what is held now; else an old request that arrives late
        revoke(pick(4) && !state_.holders.empty()
                   ? state_.holders.back().token
                   : std::max<FencingToken>(state_.fence, 3) - pick(3));
        break;
    }
    compare();
    ++steps_;
  }

  void tick() {
    if (pick(4) == 0) {  // to the edge of a deadline, or one before or behind it
      std::vector<Micros> edges;
      for (const auto& h : state_.holders) edges.insert(edges.end(), {h.deadline, h.free_at()});
      for (const auto& w : state_.waiters)
        if (w.live_until != never) edges.push_back(w.live_until);
      if (!edges.empty())
        now_ = std::max(now_, edges[pick(static_cast<unsigned>(edges.size()))] - 1 +
                                  static_cast<Micros>(pick(3)));
    } else {
      now_ += static_cast<Micros>(pick(8) ? pick(800) : pick(30'000));
    }
    store_.set_clock(now_);
  }
  void saw(std::optional<Micros> time) {
    REQUIRE(time);
    if (rules_.sets_clock) REQUIRE(*time == now_);
    now_ = *time;
  }
  void invite() {
    if (!rules_.invites) return;
    for (const std::uint64_t ticket : state_.invite(now_, model_claim))
      for (const auto& w : state_.waiters)
        if (w.ticket == ticket) expect_woken_.insert(w.owner);
  }

  void acquire(LockState::Acquisition ask) {
    ask.queue_only = rules_.graces && ask.wait && pick(8) == 0;
    const auto r = store_.acquire(ask);
    saw(r.now);
    ask.token_floor = static_cast<FencingToken>(now_);
    const bool held = state_.holder(ask.owner, now_) != nullptr;
    const auto answer = state_.acquire(ask, now_);
    if (!ask.queue_only) invite();
    const auto free_at = [&] { return state_.free_at() == never ? 0 : state_.free_at(); };
    std::string want;
    if (const auto* g = std::get_if<LockState::Granted>(&answer))
      want = fmt::format("{} {} {}", held ? "held" : "granted", g->token, g->slot);
    else if (const auto* w = std::get_if<LockState::Waiting>(&answer))
      want = fmt::format("waiting {} {}", w->rank, free_at());
    else want = fmt::format("busy {}", free_at());
    REQUIRE(r.verdict + " " + r.figures == want);
    ++answers_[r.verdict];
    first_grant_ = r.verdict == "granted" && state_.holders.size() == 1;
  }

  void release(Owner owner) {
    const auto r = store_.release(owner);
    saw(r.now);
    const bool released = state_.release(owner, now_);
    invite();
    REQUIRE(r.count == (released ? 1 : 0));
    ++answers_[released ? "released" : "not held"];
  }

  void renew(Owner owner, Micros ttl) {
    const auto r = store_.renew(owner, ttl);
    saw(r.now);
    const auto waiters = state_.waiters;
    const auto token = state_.renew(owner, ttl, now_);
    if (rules_.renew_looks) invite();
    else state_.waiters = waiters;
    REQUIRE(r.token == token);
    REQUIRE(r.revoked == (token && *token <= marked_));
    if (r.revoked) ++answers_["told to stop"];
    ++answers_[token ? "kept" : "lost"];
  }

  void cancel(Owner owner) {
    const auto r = store_.cancel(owner);
    saw(r.now);
    state_.expire(now_);
    const bool waited = state_.cancel(owner);
    const bool held = state_.release(owner, now_);
    invite();
    REQUIRE(r.waited == waited);
    REQUIRE(r.held == held);
    ++answers_[waited ? "cancelled" : "was not queued"];
  }

  void force(FencingToken token) {
    const auto r = store_.force(token);
    saw(r.now);
    state_.expire(now_);
    const std::size_t removed = state_.force_release(token);
    invite();
    REQUIRE(r.count == static_cast<std::int64_t>(removed));
    ++answers_[removed ? "forced" : "nothing to force"];
  }

  // The mark is the newest token asked; a later grant has a higher one.
  void revoke(FencingToken newest) {
    const auto r = store_.revoke(newest);
    saw(r.now);
    bool any = false;
    for (const auto& h : state_.holders) any |= h.token <= newest && h.deadline > now_;
    REQUIRE((r.count > 0) == any);
    if (any) marked_ = std::max(marked_, newest);
    ++answers_[any ? "asked to stop" : "nothing to ask"];
    if (any && pick(3) == 0)
      renew(state_.holders[pick(static_cast<unsigned>(state_.holders.size()))].owner, scale() * 20);
  }

  void check(Owner owner) {
    REQUIRE(store_.check(owner) == (state_.holder(owner, now_) != nullptr));
    for (const auto& h : state_.holders) REQUIRE(store_.check(h.token) == (h.deadline > now_));
    REQUIRE_FALSE(store_.check(state_.fence + 1));
    ++answers_["checked"];
  }

  // A waiter dies without a cancel; its owner id is never used again.
  bool lose(Owner owner) {
    const auto rank = state_.rank_of(owner);
    if (rank >= state_.waiters.size() || !store_.lose(owner)) return false;
    state_.cancel(owner);
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] != owner) continue;
      owners_[i] = Owner::random();
      asks_[i] = some_ask(owners_[i]);
    }
    ++answers_["waiter lost"];
    return true;
  }

  // Every waiter loses its connection, and so its place.
  void lose_writes() {
    if (!remembered_) {
      if (!store_.remember()) return;
      remembered_ = {state_, marked_};
      ++answers_["remembered"];
      return;
    }
    const auto before = state_.holders;
    store_.forget();
    std::tie(state_, marked_) = *std::exchange(remembered_, std::nullopt);
    state_.waiters.clear();
    ++answers_["forgotten"];
    // Another may be granted what a forgotten holder releases then.
    acquire(asks_[pick(static_cast<unsigned>(asks_.size()))]);
    for (const auto& h : before)
      if (!state_.holder(h.owner, now_)) release(h.owner);
  }

  void compare() {
    LockState state = state_;
    state.expire(now_);
    const auto seen = store_.contents(now_, owners_);
    std::set<std::string> holders;
    for (const auto& h : state.holders) holders.insert(holder_text(h));
    REQUIRE(seen.holders == holders);
    std::vector<std::string> waiters;
    for (const auto& w : state.waiters) waiters.push_back(waiter_text(w));
    REQUIRE(seen.waiters == waiters);
    REQUIRE(seen.fence.value_or(0) == state.fence);
    if (std::exchange(first_grant_, false)) REQUIRE_FALSE(seen.marked);
    REQUIRE(seen.woken == expect_woken_);
    wakeups_ += static_cast<long>(seen.woken.size());
    expect_woken_.clear();
  }

  ModelStore& store_;
  const Rules rules_;
  std::mt19937 random_;
  std::vector<Owner> owners_;
  std::vector<LockState::Acquisition> asks_;
  unsigned kind_ = 0;
  LockState state_;
  bool first_grant_ = false;
  FencingToken marked_ = 0;  // holders up to this token were asked to stop
  bool loses_writes_ = false;
  std::optional<std::tuple<LockState, FencingToken>> remembered_;
  std::set<Owner> expect_woken_;
  Micros now_ = 0;
  std::map<std::string, int> answers_;
  long steps_ = 0, wakeups_ = 0;
};

}  // namespace dlock::test
