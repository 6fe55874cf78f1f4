// SPDX-License-Identifier: Apache-2.0
// The Lua of recipe `fair` and LockState are the same procedure: random operations on both, the same answers, the same state after
// each, the same waiters woken. Once with a clock that the test sets, which meets the edges of deadlines, and once with the
// very text and clock of production, where LockState is given the time that the script says it saw.
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include "core/lock_state.hpp"
#include "redis/client.hpp"
#include "redis/fair_keys.hpp"
#include "redis/record.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "redis_scripts/timed_scripts.hpp"
#include "support/redis_server.hpp"

using namespace dlock;
using namespace dlock::redis;

namespace {

constexpr Micros claim = 2'000'000;

struct Texts {
  const Script &acquire, &renew, &release, &cancel, &force_release, &check;
};
const Texts production{scripts::acquire, scripts::renew,         scripts::release,
                       scripts::cancel,  scripts::force_release, scripts::check};
const Texts timed_texts{timed::acquire, timed::renew, timed::release, timed::cancel, timed::force_release, timed::check};

// Everything that is stored, and who was woken since the last look. Test only.
constexpr std::string_view dump = R"(
local out = { redis.call('HGETALL', KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1), {}, {}, {}, redis.call('GET', KEYS[6]) or '', {} }
for _, o in ipairs(out[2]) do
  table.insert(out[3], redis.call('ZSCORE', KEYS[3], o) or '')
  table.insert(out[4], redis.call('HGET', KEYS[4], o) or '')
  table.insert(out[5], redis.call('SISMEMBER', KEYS[5], o))
end
for _, o in ipairs(ARGV) do
  local list = string.gsub(KEYS[6], 'fence$', 'wake:') .. o
  table.insert(out[7], redis.call('LLEN', list))
  redis.call('DEL', list)
end
for i = 2, 5 do table.insert(out, redis.call(i == 4 and 'HLEN' or i == 5 and 'SCARD' or 'ZCARD', KEYS[i])) end
return out)";

class Both {
 public:
  Both(test::RedisServer& server, const Texts& texts, bool set_clock, unsigned seed)
      : server_(server), texts_(texts), set_clock_(set_clock), random_(seed) {
    for (unsigned i = 0; i < 7; ++i) owners_.push_back(Owner::random());
  }

  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }

  void new_sequence() {
    server_.command({"FLUSHDB"});
    state_ = {};
    now_ = 1'700'000'000'000'000 + static_cast<Micros>(pick(1'000'000));
    asks_.clear();
    const unsigned kind = pick(4);  // all exclusive, readers, permits, all mixed
    for (const Owner& owner : owners_) {
      LockState::Ask ask;
      ask.owner = owner;
      const unsigned mode = kind == 0 ? 0 : kind == 3 ? pick(3) : pick(2) * kind;
      ask.mode = mode == 0 ? Mode::exclusive : mode == 1 ? Mode::shared : Mode::permit;
      if (ask.mode == Mode::permit) ask.limit = 1 + pick(3);
      ask.ttl = scale() * (1 + pick(40));
      ask.delay = pick(3) == 0 ? scale() * pick(20) : 0;
      ask.patience = scale() * (1 + pick(60));
      ask.wait = pick(5) != 0;
      ask.meta = fmt::format("host=h{}&reason=a%7Cb", pick(100));
      asks_.push_back(std::move(ask));
    }
  }

  void step() {
    if (set_clock_) tick();
    const LockState::Ask& ask = asks_[pick(static_cast<unsigned>(asks_.size()))];
    const Owner some =
        !state_.holders.empty() && pick(3) ? state_.holders[pick(static_cast<unsigned>(state_.holders.size()))].owner : ask.owner;
    switch (pick(12)) {
      default: acquire(ask); break;
      case 7: release(some); break;
      case 8: renew(some, pick(4) ? ask.ttl : scale()); break;
      case 9:
        cancel(pick(2) && !state_.waiters.empty() ? state_.waiters[pick(static_cast<unsigned>(state_.waiters.size()))].owner
                                                  : ask.owner);
        break;
      case 10:
        force(pick(3) && !state_.holders.empty() ? state_.holders[pick(static_cast<unsigned>(state_.holders.size()))].token : 0);
        break;
      case 11: set_clock_ ? check(some) : acquire(ask); break;
    }
    compare();
    ++steps;
  }

  std::map<std::string, int> answers;
  long steps = 0, wakeups = 0;

 private:
  Micros scale() const { return set_clock_ ? 1000 : 400; }  // real time passes at about 150 us per step

  void tick() {
    if (pick(4) == 0) {  // to the very edge of something, or one before or behind it
      std::vector<Micros> edges;
      for (const auto& h : state_.holders) edges.insert(edges.end(), {h.deadline, h.free_at()});
      for (const auto& w : state_.waiters) edges.push_back(w.live_until);
      if (!edges.empty())
        now_ = std::max(now_, edges[pick(static_cast<unsigned>(edges.size()))] - 1 + static_cast<Micros>(pick(3)));
    } else {
      now_ += static_cast<Micros>(pick(8) ? pick(800) : pick(30'000));
    }
    server_.command({"SET", "test-clock", std::to_string(now_)});
  }

  Reply run(const Script& script, const std::vector<std::string>& args, bool with_wake = false, const Owner& owner = {}) {
    std::vector<std::string> words{"EVALSHA", std::string{script.sha}};
    auto keys = keys_.all();
    if (with_wake) keys.push_back(keys_.wake(owner));
    words.push_back(std::to_string(keys.size()));
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), args.begin(), args.end());
    std::vector<std::string_view> views{words.begin(), words.end()};
    Reply reply = server_.command(views);
    if (reply.text.starts_with("NOSCRIPT")) {
      views[0] = "EVAL", views[1] = script.text;
      reply = server_.command(views);
    }
    INFO("error: " << reply.text);
    REQUIRE(!reply.is(Reply::Type::error));
    return reply;
  }
  void saw(std::optional<std::int64_t> time) {
    REQUIRE(time);
    if (set_clock_) REQUIRE(*time == now_);
    now_ = *time;
  }
  void invite() {
    for (const std::uint64_t ticket : state_.invite(now_, claim))
      for (const auto& w : state_.waiters)
        if (w.ticket == ticket) expect_woken_.insert(w.owner);
  }

  void acquire(LockState::Ask ask) {
    const Reply r =
        run(texts_.acquire,
            {ask.owner.hex(), std::string{static_cast<char>(ask.mode)}, std::to_string(ask.limit), std::to_string(ask.ttl),
             std::to_string(ask.delay), std::to_string(ask.patience), std::to_string(claim), ask.meta, "", ask.wait ? "1" : "0"},
            true, ask.owner);
    saw(r.number_at(1));
    ask.token_floor = static_cast<FencingToken>(now_);
    const bool held = state_.holder(ask.owner, now_) != nullptr;
    const auto answer = state_.acquire(ask, now_);
    invite();
    std::string want, got = std::string{r.text_at(0)} + " ";
    if (const auto* g = std::get_if<LockState::Granted>(&answer)) {
      want = fmt::format("{} {} {}", held ? "held" : "granted", g->token, g->slot);
      got += fmt::format("{} {}", r.text_at(2), r.number_at(3).value_or(-1));
    } else if (const auto* w = std::get_if<LockState::Waiting>(&answer)) {
      want = fmt::format("waiting {} {}", w->rank, state_.free_at() == never ? 0 : state_.free_at());
      got += fmt::format("{} {}", r.number_at(2).value_or(-1), r.text_at(3));
    } else {
      want = fmt::format("busy {}", state_.free_at() == never ? 0 : state_.free_at());
      got += r.text_at(2);
    }
    REQUIRE(got == want);
    ++answers[std::string{r.text_at(0)}];
  }

  void release(Owner owner) {
    const Reply r = run(texts_.release, {owner.hex(), std::to_string(claim)});
    saw(r.number_at(1));
    const bool released = state_.release(owner, now_);
    invite();
    REQUIRE(r.number_at(0) == (released ? 1 : 0));
    ++answers[released ? "released" : "not held"];
  }

  void renew(Owner owner, Micros ttl) {
    const Reply r = run(texts_.renew, {owner.hex(), std::to_string(ttl), std::to_string(claim)});
    saw(r.number_at(1));
    const auto token = state_.renew(owner, ttl, now_);
    invite();
    REQUIRE(r.text_at(0) == (token ? "kept" : "lost"));
    if (token) REQUIRE(r.text_at(2) == std::to_string(*token));
    ++answers[std::string{r.text_at(0)}];
  }

  void cancel(Owner owner) {
    const Reply r = run(texts_.cancel, {owner.hex(), std::to_string(claim)}, true, owner);
    saw(r.number_at(2));
    state_.expire(now_);
    const bool waited = state_.cancel(owner);
    const bool held = state_.release(owner, now_);
    invite();
    REQUIRE(r.number_at(0) == (waited ? 1 : 0));
    REQUIRE(r.number_at(1) == (held ? 1 : 0));
    ++answers[waited ? "cancelled" : "was not queued"];
  }

  void force(FencingToken token) {
    const Reply r = run(texts_.force_release, {token ? std::to_string(token) : "", std::to_string(claim)});
    saw(r.number_at(1));
    state_.expire(now_);
    const std::size_t removed = state_.force_release(token);
    invite();
    REQUIRE(r.number_at(0) == static_cast<std::int64_t>(removed));
    ++answers[removed ? "forced" : "nothing to force"];
  }

  void check(Owner owner) {
    const auto ask = [&](std::string who, FencingToken token) {
      return run(texts_.check, {std::move(who), token ? std::to_string(token) : ""}).integer;
    };
    REQUIRE(ask(owner.hex(), 0) == (state_.holder(owner, now_) ? 1 : 0));
    for (const auto& h : state_.holders) REQUIRE(ask("", h.token) == (h.deadline > now_ ? 1 : 0));
    REQUIRE(ask("", state_.fence + 1) == 0);
    ++answers["checked"];
  }

  void compare() {
    LockState state = state_;
    state.expire(now_);
    std::vector<std::string> words{"EVAL", std::string{dump}, "6"};
    const auto keys = keys_.all();
    words.insert(words.end(), keys.begin(), keys.end());
    for (const Owner& o : owners_) words.push_back(o.hex());
    const Reply r = server_.command(std::vector<std::string_view>{words.begin(), words.end()});
    REQUIRE(r.items.size() == 11);

    std::set<std::string> want, got;
    for (const auto& h : state.holders)
      want.insert(fmt::format("{} {} {} {} {} {} {} {}", h.owner.hex(), static_cast<char>(h.mode), h.token, h.slot, h.since,
                              h.deadline, h.delay, h.meta));
    for (std::size_t i = 0; i + 1 < r.items[0].items.size(); i += 2) {
      const auto h = parse_holder(r.items[0].text_at(i + 1));
      REQUIRE(h);
      if (h->free_at() <= now_) continue;  // dropped by the next script that needs to know
      got.insert(fmt::format("{} {} {} {} {} {} {} {}", r.items[0].text_at(i).substr(0, 32), static_cast<char>(h->mode), h->token,
                             h->slot, h->since, h->deadline, h->delay, h->meta));
    }
    REQUIRE(got == want);

    std::vector<std::string> queue, expected;
    for (const auto& w : state.waiters)
      expected.push_back(
          fmt::format("{} {} {} {} {} {}", w.owner.hex(), w.live_until, static_cast<char>(w.mode), w.limit, w.meta, w.invited));
    for (std::size_t i = 0; i < r.items[1].items.size(); ++i) {
      const auto w = parse_waiter(r.items[3].text_at(i));
      REQUIRE(w);
      if (std::stoll(std::string{r.items[2].text_at(i)}) <= now_) continue;
      queue.push_back(fmt::format("{} {} {} {} {} {}", r.items[1].text_at(i), r.items[2].text_at(i), static_cast<char>(w->mode),
                                  w->limit, w->meta, r.items[4].number_at(i) == 1));
    }
    REQUIRE(queue == expected);
    for (std::size_t i = 7; i < 10; ++i) REQUIRE(r.number_at(i) == r.number_at(7));  // queue, alive, waiters: the same people
    REQUIRE(*r.number_at(10) <= *r.number_at(7));
    REQUIRE(r.text_at(5) == (state.fence ? std::to_string(state.fence) : ""));

    std::set<Owner> woken;
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      const auto n = r.items[6].number_at(i).value_or(-1);
      REQUIRE((n == 0 || n == 1));
      if (n == 1) woken.insert(owners_[i]);
    }
    REQUIRE(woken == expect_woken_);
    wakeups += static_cast<long>(woken.size());
    expect_woken_.clear();
  }

  test::RedisServer& server_;
  const Texts& texts_;
  const bool set_clock_;
  std::mt19937 random_;
  const FairKeys keys_{"dlock:", *Key::parse("model")};
  std::vector<Owner> owners_;
  std::vector<LockState::Ask> asks_;
  LockState state_;
  std::set<Owner> expect_woken_;
  Micros now_ = 0;
};

void run_both(const Texts& texts, bool set_clock, long steps) {
  test::RedisServer server;
  const unsigned seed = Catch::rngSeed() ? Catch::rngSeed() : 1;
  Both both{server, texts, set_clock, seed};
  while (both.steps < steps) {
    both.new_sequence();
    const long end = both.steps + 20 + static_cast<long>(both.pick(80));
    CAPTURE(seed, both.steps);
    while (both.steps < end) both.step();
  }
  for (const char* seen : {"granted", "held", "waiting", "busy", "released", "not held", "kept", "lost", "cancelled", "forced"}) {
    INFO(seen);
    CHECK(both.answers[seen] > steps / 400);  // the run would prove little without
  }
  CHECK(both.wakeups > steps / 50);
  std::string tally;
  for (const auto& [what, n] : both.answers) tally += fmt::format(" {}: {};", what, n);
  WARN(both.steps << " operations, " << both.wakeups << " wake-ups, seed " << seed << ":" << tally);
}

}  // namespace

TEST_CASE("the scripts and LockState decide alike, with a clock that meets every edge") { run_both(timed_texts, true, 40'000); }
TEST_CASE("the scripts and LockState decide alike, on the server's own clock") { run_both(production, false, 25'000); }

TEST_CASE("the server agrees on the SHA-1 of every script") {
  test::RedisServer server;
  for (const Script* s : {&scripts::acquire, &scripts::renew, &scripts::release, &scripts::cancel, &scripts::force_release,
                          &scripts::check, &scripts::inspect})
    CHECK(server.command({"SCRIPT", "LOAD", s->text}).text == s->sha);
}
