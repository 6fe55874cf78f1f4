// SPDX-License-Identifier: Apache-2.0
// The Lua of recipe `fair` and LockState are the same procedure: random operations on both, the same answers, the same state after
// each, the same waiters woken. Once with a clock that the test sets, which meets the edges of deadlines, and once with the
// very text and clock of production, where LockState is given the time that the script says it saw.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "contract/model_driver.hpp"
#include "redis/client.hpp"
#include "redis/fair_keys.hpp"
#include "redis/record.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "redis_scripts/timed_scripts.hpp"
#include "support/redis_server.hpp"

using namespace dlock;
using namespace dlock::redis;

namespace {

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

class RedisModel final : public test::ModelStore {
 public:
  RedisModel(test::RedisServer& server, const Texts& texts) : server_(server), texts_(texts) {}

  void clear(const std::vector<Owner>&) override { server_.command({"FLUSHDB"}); }
  void set_clock(Micros now) override { server_.command({"SET", "test-clock", std::to_string(now)}); }

  Acquired acquire(const LockState::Ask& ask) override {
    const Reply r = run(texts_.acquire,
                        {ask.owner.hex(), std::string{static_cast<char>(ask.mode)}, std::to_string(ask.limit),
                         std::to_string(ask.ttl), std::to_string(ask.delay), std::to_string(ask.patience),
                         std::to_string(test::model_claim), ask.meta, "", ask.wait ? "1" : "0"},
                        true, ask.owner);
    const std::string verdict{r.text_at(0)};
    std::string figures;
    if (verdict == "granted" || verdict == "held") figures = fmt::format("{} {}", r.text_at(2), r.number_at(3).value_or(-1));
    else if (verdict == "waiting") figures = fmt::format("{} {}", r.number_at(2).value_or(-1), r.text_at(3));
    else figures = r.text_at(2);
    return {r.number_at(1), verdict, figures};
  }
  Counted release(const Owner& owner) override {
    const Reply r = run(texts_.release, {owner.hex(), std::to_string(test::model_claim)});
    return {r.number_at(1), r.number_at(0).value_or(-1)};
  }
  Renewed renew(const Owner& owner, Micros ttl) override {
    const Reply r = run(texts_.renew, {owner.hex(), std::to_string(ttl), std::to_string(test::model_claim)});
    const bool kept = r.text_at(0) == "kept";
    REQUIRE((kept || r.text_at(0) == "lost"));
    return {r.number_at(1), kept ? parse_unsigned(r.text_at(2)) : std::nullopt};
  }
  Cancelled cancel(const Owner& owner) override {
    const Reply r = run(texts_.cancel, {owner.hex(), std::to_string(test::model_claim)}, true, owner);
    return {r.number_at(2), r.number_at(0) == 1, r.number_at(1) == 1};
  }
  Counted force(FencingToken token) override {
    const Reply r = run(texts_.force_release, {token ? std::to_string(token) : "", std::to_string(test::model_claim)});
    return {r.number_at(1), r.number_at(0).value_or(-1)};
  }
  bool check(const Owner& owner) override { return ask(owner.hex(), 0); }
  bool check(FencingToken token) override { return ask("", token); }

  Contents contents(Micros now, const std::vector<Owner>& owners) override {
    std::vector<std::string> words{"EVAL", std::string{dump}, "6"};
    const auto keys = keys_.all();
    words.insert(words.end(), keys.begin(), keys.end());
    for (const Owner& o : owners) words.push_back(o.hex());
    const Reply r = server_.command(std::vector<std::string_view>{words.begin(), words.end()});
    REQUIRE(r.items.size() == 11);

    Contents c;
    for (std::size_t i = 0; i + 1 < r.items[0].items.size(); i += 2) {
      auto h = parse_holder(r.items[0].text_at(i + 1));
      const auto owner = Owner::parse(r.items[0].text_at(i).substr(0, 32));
      REQUIRE(h);
      REQUIRE(owner);
      h->owner = *owner;
      if (h->free_at() > now)
        c.holders.insert(test::ModelRun::holder_text(*h));  // others: dropped by the next script that needs to know
    }
    for (std::size_t i = 0; i < r.items[1].items.size(); ++i) {
      const auto w = parse_waiter(r.items[3].text_at(i));
      REQUIRE(w);
      if (std::stoll(std::string{r.items[2].text_at(i)}) <= now) continue;
      c.waiters.push_back(fmt::format("{} {} {} {} {} {}", r.items[1].text_at(i), static_cast<char>(w->mode), w->limit, w->meta,
                                      r.items[2].text_at(i), r.items[4].number_at(i) == 1));
    }
    for (std::size_t i = 7; i < 10; ++i) REQUIRE(r.number_at(i) == r.number_at(7));  // queue, alive, waiters: the same people
    REQUIRE(*r.number_at(10) <= *r.number_at(7));
    if (!r.text_at(5).empty()) c.fence = parse_unsigned(r.text_at(5)).value();
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const auto n = r.items[6].number_at(i).value_or(-1);
      REQUIRE((n == 0 || n == 1));
      if (n == 1) c.woken.insert(owners[i]);
    }
    return c;
  }

 private:
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
  bool ask(const std::string& who, FencingToken token) {
    return run(texts_.check, {who, token ? std::to_string(token) : ""}).integer == 1;
  }

  test::RedisServer& server_;
  const Texts& texts_;
  const FairKeys keys_{"dlock:", *Key::parse("model")};
};

void run_both(const Texts& texts, bool set_clock, long steps) {
  test::RedisServer server;
  const unsigned seed = Catch::rngSeed() ? Catch::rngSeed() : 1;
  RedisModel store{server, texts};
  test::ModelRun{store, {.sets_clock = set_clock}, seed}.run(steps, seed);
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
