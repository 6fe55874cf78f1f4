// SPDX-License-Identifier: Apache-2.0
// What phase 2 accepts and refuses: each rule on which the order of tokens and exclusion rest.
#include "redlock/redlock_backend.hpp"
#include "redlock_faults.hpp"
#include "redlock_scripts/scripts.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

const redlock::Names at{"k"};
const std::string alice(48, 'a'), bob(48, 'b');

Reply eval(RedisServer& s, const redis::Script& script, std::initializer_list<std::string> words) {
  std::vector<std::string> all{"EVAL", std::string{script.text}, "3", at.lock, at.record, at.wake,
                               "1"};
  all.insert(all.end(), words);
  return s.command(std::vector<std::string_view>{all.begin(), all.end()});
}
// Sets a master's counter an hour ahead: it has given high numbers, or its clock was once wrong.
void raise_counter(RedisServer& s) {
  const auto now = static_cast<std::uint64_t>(wall_micros());
  s.command({"SET", at.record, fmt::format("{}|0||0|0||", now + 3'600'000'000ULL)});
}
bool granted(const Result<Progress>& p) { return p && std::holds_alternative<Granted>(*p); }

struct Attempt {
  std::unique_ptr<RedlockMasters> masters;
  std::unique_ptr<Backend> backend;
  Result<Progress> answer;
};
// One attempt in which the confirmations of these masters are lost; with other masters again where
// a busy machine left one of them out, or it was not `as_meant`.
Attempt unconfirmed(
    const std::vector<std::size_t>& lost, const char* warm,
    const std::function<void(RedlockMasters&)>& prepare = [](auto&) {},
    const std::function<bool(RedlockMasters&)>& as_meant = [](auto&) { return true; }) {
  for (int tries = 0;; ++tries) {
    auto m = std::make_unique<RedlockMasters>(RedlockMasters::Setup{.proxied = true});
    auto backend = open_redlock(m->proxied_url(), patient());
    warm_up(*m, *backend, warm);
    prepare(*m);
    for (const std::size_t i : lost)
      m->proxies[i]->lose_reply(std::string{redlock::scripts::confirm.sha}, true);
    auto answer = (*backend->enqueue(request(key("k"), 30s)))->poll(0s);
    if (std::all_of(lost.begin(), lost.end(),
                    [&](auto i) { return m->proxies[i]->lost_one(1s); }) &&
        as_meant(*m))
      return {std::move(m), std::move(backend), std::move(answer)};
    REQUIRE(tries < 10);
  }
}

}  // namespace

TEST_CASE("a token is written back only if the vote is still its owner's") {
  RedlockMasters m{{.count = 3}};
  auto& s = *m.servers[0];
  REQUIRE(eval(s, redlock::scripts::acquire, {alice, "300000", "", "a:1/0", "0"}).text_at(2) ==
          "granted");
  const std::string number{
      eval(s, redlock::scripts::acquire, {alice, "300000", "", "a:1/0", "0"}).text_at(3)};
  s.command({"DEL", at.lock});  // expired
  REQUIRE(eval(s, redlock::scripts::acquire, {bob, "300000", "", "a:1/0", "0"}).text_at(2) ==
          "granted");
  const std::string before = s.command({"GET", at.record}).text;
  const std::string high = "9000000000000000";
  CHECK(eval(s, redlock::scripts::confirm, {alice, std::string{number}}).number_at(2) == 0);
  CHECK(eval(s, redlock::scripts::confirm, {alice, high}).number_at(2) == 0);
  CHECK(s.command({"GET", at.record}).text == before);
  s.command({"DEL", at.lock});  // and if the vote is free
  CHECK(eval(s, redlock::scripts::confirm, {bob, high}).number_at(2) == 0);
  CHECK(s.command({"GET", at.record}).text == before);
}

TEST_CASE("a vote with a number above the token does not count for it, and the number is kept") {
  RedlockMasters m{{.count = 3}};
  auto& s = *m.servers[0];
  raise_counter(s);
  const auto vote = eval(s, redlock::scripts::acquire, {alice, "300000", "", "a:1/0", "0"});
  const auto number = std::stoull(std::string{vote.text_at(3)});
  CHECK(eval(s, redlock::scripts::confirm, {alice, std::to_string(number - 1)}).number_at(2) == 0);
  CHECK(eval(s, redlock::scripts::confirm, {alice, std::to_string(number)}).number_at(2) == 1);
  CHECK(eval(s, redlock::scripts::confirm, {alice, std::to_string(number + 5)}).number_at(2) == 1);
  s.command({"DEL", at.lock});
  // Its next number is above every token that it was told.
  CHECK(std::stoull(std::string{
            eval(s, redlock::scripts::acquire, {bob, "300000", "", "a:1/0", "0"}).text_at(3)}) >
        number + 5);
}

TEST_CASE("acknowledgements of masters whose higher numbers were not received make no grant") {
  const auto delays = [](RedlockMasters& m) {
    for (const std::size_t i : {3, 4}) {
      raise_counter(*m.servers[i]);
      // after the decision of phase 1, before that of phase 2
      m.proxies[i]->delay(Proxy::to_client, 80ms);
    }
  };
  // A busy machine may receive the high numbers, too: then the token is one of them.
  const auto without_them = [](RedlockMasters& m) {
    const std::string counter = m.value(1, at.record);
    return std::stoull(counter) < static_cast<std::uint64_t>(wall_micros()) + 1'800'000'000ULL;
  };
  const auto p = unconfirmed({1, 2}, "k", delays, without_them);  // which know its list
  CHECK_FALSE(granted(p.answer));  // only one acknowledged a token above all its numbers
}

TEST_CASE("less than a majority of acknowledgements is no grant, and writes no list") {
  const auto p = unconfirmed({0, 2, 4}, "warm");
  REQUIRE_FALSE(p.answer);
  CHECK(p.answer.error().code == Errc::timed_out);
  for (std::size_t i = 0; i < 5; ++i) CHECK(known_list(*p.masters, i).empty());
  // It is released at every master that took part; a release lost on a busy machine is made up by
  // the ttl.
  CHECK(eventually(
      [&] {
        std::size_t left = 0;
        for (std::size_t i = 0; i < 5; ++i) left += !p.masters->value(i, "k").empty();
        return left == 0;
      },
      30s + long_enough));
}

TEST_CASE("two votes of five are no majority, whichever owners have the others") {
  RedlockMasters m;
  auto backend = open_redlock(m.url(), patient());
  for (const std::size_t i : {0, 1, 2})
    m.servers[i]->command(
        {"SET", "k", fmt::format("stranger {} of sixteen letters", i), "PX", "300000"});
  CHECK_FALSE(granted(answer_of(*backend, request(key("k"), 300s))));
}

TEST_CASE("a grant with hardly any time left is given back") {
  RedlockMasters m{{.proxied = true}};
  auto backend = open_redlock(m.proxied_url(), patient());
  REQUIRE(backend->release(granted_within(*backend, request(key("warm"), 300s))) == Released::yes);
  for (auto& p : m.proxies) p->delay(Proxy::to_client, 4ms);
  // 12 ms less 1 % and 2 ms, of which the two rounds take 8: less than a quarter is left. Each
  // reply is in time.
  for (int i = 0; i < 30; ++i) {
    auto waiter = *backend->enqueue(request(key("k"), 12ms));
    CHECK_FALSE(granted(waiter->poll(0s)));
    (void)waiter->cancel();
  }
}

TEST_CASE(
    "a lost vote is not taken again by a request that was long under way, nor without a majority") {
  RedlockMasters m;
  const auto retake = [&](std::size_t i, std::int64_t not_after) {
    return eval(*m.servers[i], redlock::scripts::retake,
                {alice, "300000", "7000", std::to_string(not_after), "0", "", "a:1/0"})
        .number_at(2);
  };
  CHECK(retake(0, wall_micros() - 1000) == 0);
  CHECK(m.value(0, "k").empty());
  CHECK(retake(0, wall_micros() + 60'000'000) == 1);
  CHECK(retake(0, wall_micros() + 60'000'000) == 0);  // taken by another
  m.servers[0]->command({"DEL", at.lock, at.record});

  // The lease expires at three masters of five: the two that still have it do not restore it.
  auto backend = open_redlock(m.url(), patient());
  const Lease l = granted_within(*backend, request(key("k"), 300s));
  REQUIRE(has_all_votes(m, *backend, l, "k", 300s));
  for (const std::size_t i : {0, 1, 2}) m.servers[i]->command({"DEL", "k"});
  CHECK(lost(backend->renew(l, 300s)));
  for (const std::size_t i : {0, 1, 2}) CHECK(m.value(i, "k").empty());
  CHECK(eventually([&] { return votes_of(m, "k", l.owner) == 0; }));  // the rest is released
}

TEST_CASE("the token is the highest of the numbers received") {
  RedlockMasters m;
  // one of them is in every majority
  for (const std::size_t i : {1, 2, 3}) raise_counter(*m.servers[i]);
  auto backend = open_redlock(m.url(), patient());
  FencingToken newest = 0;
  for (int i = 0; i < 20; ++i) {
    const Lease l = granted_within(*backend, request(key("k"), 300s));
    CHECK(l.token > static_cast<FencingToken>(wall_micros()) + 3'000'000'000ULL);
    CHECK(l.token > newest);
    newest = l.token;
    CHECK(backend->release(l) == Released::yes);
  }
}

TEST_CASE("a late request to stop asks no later holder, and leaves nothing behind") {
  RedlockMasters m{{.proxied = true}};
  auto holder = open_redlock(m.proxied_url(), patient()),
       admin = open_redlock(m.proxied_url(), patient());
  const Key k = key("k");
  std::unique_ptr<Backend> late;
  std::optional<Lease> second;
  // Each master is asked by a script that it knows; a busy machine may leave one out.
  const auto all_are_asked = [&] {
    for (auto& proxy : m.proxies) proxy->let_go();
    late = open_redlock(m.proxied_url(), quick(2s, 2s));
    second = granted_within(*holder, request(k, 300s));
    REQUIRE(has_all_votes(m, *holder, *second, "k", 300s));
    bool all = late->revoke(k) == Released::yes;  // the script is known
    REQUIRE(holder->release(*second) == Released::yes);
    second = granted_within(*holder, request(k, 300s));
    REQUIRE(has_all_votes(m, *holder, *second, "k", 300s));
    for (auto& proxy : m.proxies) proxy->hold(std::string{redlock::scripts::revoke.sha});
    all &= !late->revoke(k);  // unanswered
    for (auto& proxy : m.proxies) all &= proxy->holds_one(1s);
    if (!all) REQUIRE(holder->release(*second) == Released::yes);
    return all;
  };
  int tries = 1;
  while (!all_are_asked()) REQUIRE(++tries <= 10);
  CHECK(holder->release(*second) == Released::yes);
  const Lease third = granted_within(*holder, request(k, 300s));
  const auto scripts_run = [&](std::size_t i) {
    const std::string stats = m.servers[i]->command({"INFO", "commandstats"}).text;
    const std::size_t at = stats.find("cmdstat_evalsha:");
    return stats.substr(at, stats.find(',', at) - at);
  };
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::string before = scripts_run(i);
    m.proxies[i]->let_go();
    REQUIRE(eventually([&] { return scripts_run(i) != before; }));
    CHECK(m.servers[i]->command({"GET", at.record}).text.find("revoked") == std::string::npos);
  }
  const Renewal answer = renewed(*holder, third, 300s);
  REQUIRE(kept(answer));
  CHECK_FALSE(std::get<Kept>(answer).revoked);
  CHECK_FALSE((**admin->inspect(k)).holders[0].revoked);
  CHECK(holder->release(third) == Released::yes);
}
