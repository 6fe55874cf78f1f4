// SPDX-License-Identifier: Apache-2.0
// The Lua of recipe `fair` and LockState are the same procedure: random operations on both give
// equal answers, equal state after each, and wake the same waiters. Once with a clock set by the
// test, which meets the edges of deadlines, and once with the text and clock of production, where
// LockState gets the time that the script reports.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "contract/model_driver.hpp"
#include "core/number.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/wire/client.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "redis_scripts/timed_scripts.hpp"
#include "support/redis_server.hpp"
#include "support/repeated.hpp"

using namespace dlock;
using namespace dlock::redis;

namespace {

struct Texts {
  const Script &acquire, &renew, &release, &cancel, &force_release, &revoke, &check;
};
const Texts production{scripts::acquire,       scripts::renew,  scripts::release, scripts::cancel,
                       scripts::force_release, scripts::revoke, scripts::check};
const Texts timed_texts{timed::acquire,       timed::renew,  timed::release, timed::cancel,
                        timed::force_release, timed::revoke, timed::check};

// Everything that is stored, and the waiters woken since the last call. Test only.
constexpr std::string_view dump = R"(
local out = { redis.call('HGETALL', KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'), {} }
for _, o in ipairs(ARGV) do
  local list = string.gsub(KEYS[1], 'fence$', 'wake:') .. o
  table.insert(out[3], redis.call('LLEN', list))
  redis.call('DEL', list)
end
return out)";

class RedisModel final : public test::ModelStore {
 public:
  RedisModel(test::RedisServer& server, const Texts& texts) : server_(server), texts_(texts) {}

  void clear(const std::vector<Owner>&) override {
    server_.command({"FLUSHDB"});
    asks_.clear();
    tokens_.clear();
  }
  void set_clock(Micros now) override {
    server_.command({"SET", "test-clock", std::to_string(now)});
  }

  Acquired acquire(const LockState::Acquisition& ask) override {
    const Reply r =
        run(texts_.acquire,
            {ask.owner.hex(), std::string{static_cast<char>(ask.mode)}, std::to_string(ask.limit),
             std::to_string(ask.ttl), std::to_string(ask.delay), std::to_string(ask.patience),
             std::to_string(test::model_claim), ask.meta, "", ask.wait ? "1" : "0",
             ++asked_ % 3 == 0 ? "1" : "0", ask.queue_only ? "1" : "0"});
    asks_[ask.owner] = ask;
    const std::string verdict{r.text_at(0)};
    std::string figures;
    if (verdict == "granted" || verdict == "held") {
      figures = fmt::format("{} {}", r.text_at(2), r.number_at(3).value_or(-1));
      tokens_[ask.owner] = r.text_at(2);
    } else if (verdict == "waiting") {
      figures = fmt::format("{} {}", r.number_at(2).value_or(-1), r.number_at(3).value_or(-1));
    } else {
      figures = std::to_string(r.number_at(2).value_or(-1));
    }
    return {r.number_at(1), verdict, figures};
  }
  Counted release(const Owner& owner) override {
    const Reply r =
        run(texts_.release, {owner.hex(), token_of(owner), std::to_string(test::model_claim)});
    return {r.number_at(1), r.number_at(0).value_or(-1)};
  }
  Renewed renew(const Owner& owner, Micros ttl) override {
    const Reply r = run(texts_.renew, {owner.hex(), token_of(owner), std::to_string(ttl)});
    const bool kept = r.text_at(0) == "kept";
    REQUIRE((kept || r.text_at(0) == "lost"));
    return {r.number_at(1), kept ? parse_number<std::uint64_t>(r.text_at(2)) : std::nullopt,
            kept && r.number_at(5) == 1};
  }
  Cancelled cancel(const Owner& owner) override {
    const LockState::Acquisition& ask =
        asks_[owner];  // an owner that never asked has nothing to cancel
    const Reply r = run(texts_.cancel,
                        {owner.hex(), std::string{static_cast<char>(ask.mode)},
                         std::to_string(ask.limit), ask.meta, std::to_string(test::model_claim)});
    return {r.number_at(2), r.number_at(0) == 1, r.number_at(1) == 1};
  }
  Counted force(FencingToken token) override {
    const Reply r = run(texts_.force_release,
                        {token ? std::to_string(token) : "", std::to_string(test::model_claim)});
    return {r.number_at(1), r.number_at(0).value_or(-1)};
  }
  Counted revoke(FencingToken newest) override {
    const Reply r = run(texts_.revoke, {std::to_string(newest), "host=h"});
    return {r.number_at(1), r.number_at(0).value_or(-1)};
  }
  bool check(const Owner& owner) override { return ask(owner.hex(), 0); }
  bool check(FencingToken token) override { return ask("", token); }

  Contents contents(Micros now, const std::vector<Owner>& owners) override {
    std::vector<std::string> words{"EVAL", std::string{dump}, "2"};
    const auto keys = keys_.all();
    words.insert(words.end(), keys.begin(), keys.end());
    for (const Owner& o : owners) words.push_back(o.hex());
    const Reply r = server_.command(std::vector<std::string_view>{words.begin(), words.end()});
    REQUIRE(r.items.size() == 3);

    Contents c;
    for (std::size_t i = 0; i + 1 < r.items[0].items.size(); i += 2) {
      const std::string_view name = r.items[0].text_at(i), value = r.items[0].text_at(i + 1);
      c.marked |= name == "revoke";
      if (name == "fence") c.fence = parse_number<std::uint64_t>(value).value();
      if (!parse_number<std::uint64_t>(name)) continue;
      auto h = parse_holder(fmt::format("{}|{}", name, value));
      REQUIRE(h);
      const auto owner = Owner::parse(h->id);
      REQUIRE(owner);
      h->owner = *owner;
      if (h->free_at() > now)
        // the next script that needs the others drops them
        c.holders.insert(test::ModelRun::holder_text(*h));
    }
    std::map<std::string, std::string, std::less<>> live_until;
    std::vector<std::pair<std::string, std::string>> requests;  // with their tickets
    for (std::size_t i = 0; i + 1 < r.items[1].items.size(); i += 2) {
      const std::string member{r.items[1].text_at(i)}, score{r.items[1].text_at(i + 1)};
      if (member.find('|') == member.npos) live_until[member.substr(1)] = score;
      else requests.emplace_back(member, score);
    }
    REQUIRE(live_until.size() == requests.size());
    for (const auto& [member, ticket] : requests) {
      const auto w = parse_waiter(member);
      REQUIRE(w);
      const std::string score = live_until.at(ticket);
      const std::size_t point = score.find('.');
      if (std::stoll(score) > now)
        c.waiters.push_back(fmt::format("{} {} {} {} {} {}", w->id, static_cast<char>(w->mode),
                                        w->limit, w->meta, score.substr(0, point),
                                        point != score.npos));
    }
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const auto n = r.items[2].number_at(i).value_or(-1);
      REQUIRE((n == 0 || n == 1));
      if (n == 1) c.woken.insert(owners[i]);
    }
    return c;
  }

 private:
  // A holder gives its token, as the lease has it, or (from a handle) only its owner.
  std::string token_of(const Owner& owner) { return ++asked_ % 4 == 0 ? "" : tokens_[owner]; }

  Reply run(const Script& script, const std::vector<std::string>& args) {
    std::vector<std::string> words{"EVALSHA", std::string{script.sha}};
    const auto keys = keys_.all();
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
  std::map<Owner, LockState::Acquisition> asks_;
  std::map<Owner, std::string> tokens_;
  unsigned asked_ = 0;
};

void run_both(const Texts& texts, bool set_clock, long steps) {
  test::RedisServer server;
  const unsigned seed = Catch::rngSeed();
  RedisModel store{server, texts};
  test::ModelRun{store, {.sets_clock = set_clock, .renew_looks = false, .graces = true}, seed}.run(
      steps, seed);
}

}  // namespace

TEST_CASE("the scripts and LockState decide alike, with a clock that meets every edge") {
  run_both(timed_texts, true, test::repeated(40'000));
}
TEST_CASE("the scripts and LockState decide alike, on the server's own clock") {
  run_both(production, false, test::repeated(25'000));
}

TEST_CASE("the server agrees on the SHA-1 of every script") {
  test::RedisServer server;
  for (const Script* s :
       {&scripts::acquire, &scripts::renew, &scripts::release, &scripts::cancel,
        &scripts::force_release, &scripts::revoke, &scripts::check, &scripts::inspect})
    CHECK(server.command({"SCRIPT", "LOAD", s->text}).text == s->sha);
}
