// SPDX-License-Identifier: Apache-2.0
// Clients with different lists of masters: refused, and how a list is changed.
#include "redlock/record.hpp"
#include "redlock_faults.hpp"
#include "redlock_scripts/scripts.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

std::string url_of(const RedlockMasters& m, const std::vector<std::size_t>& masters,
                   const std::string& items = "") {
  std::string hosts;
  for (const std::size_t i : masters) hosts += (hosts.empty() ? "" : ",") + m.name(i);
  return fmt::format("redlock://{}?restart_grace=0{}", hosts, items);
}

const std::string change = "&list_change=yes";

Result<Progress> one_try(Backend& b, Duration ttl = 30s) {
  return (*b.enqueue(request(key("k"), ttl)))->poll(0s);
}
// Repeated where masters did not answer in time.
Result<Progress> answered_try(Backend& b) {
  Result<Progress> p = one_try(b);
  for (const Deadline until = later(Clock::now(), long_enough);
       !p && retryable(p.error().code) && Clock::now() < until; ::usleep(20'000))
    p = one_try(b);
  return p;
}
Result<Progress> answered_try(const std::string& url) {
  return answered_try(*open_redlock(url, patient()));
}

bool is_granted(const Result<Progress>& p) { return p && std::holds_alternative<Granted>(*p); }
std::string refused(const Result<Progress>& p) {
  if (p) return "";
  INFO(p.error().message);
  CHECK(p.error().code == Errc::usage);
  return p.error().message;
}

// Repeated where a majority granted without a master, which a busy machine had left out.
std::string refused_by_all(const std::string& url) {
  auto b = open_redlock(url, patient());
  std::string why;
  CHECK(eventually([&] {
    const auto p = answered_try(*b);
    if (is_granted(p)) return !b->release(std::get<Granted>(*p).lease);
    why = refused(p);
    return true;
  }));
  return why;
}

// A grant with this list, and its release: then every reachable master knows the list.
void once(RedlockMasters& m, const std::vector<std::size_t>& masters,
          const std::string& items = "") {
  auto b = open_redlock(url_of(m, masters, items), patient());
  const Lease l = granted_within(*b, request(key("k"), 300s));
  REQUIRE(kept(renewed(*b, l, 300s)));  // for masters that a busy machine left out
  REQUIRE(b->release(l) == Released::yes);
  REQUIRE(eventually([&] {
    return std::all_of(masters.begin(), masters.end(),
                       [&](std::size_t i) { return m.value(i, "k").empty(); });
  }));
}

void set_list(RedlockMasters& m, std::size_t i, const std::string& list) {
  std::string record = m.value(i, redlock::Names{"k"}.record);
  std::size_t from = 0;
  for (int field = 0; field < 5; ++field) from = record.find('|', from) + 1;
  record.replace(from, record.find('|', from) - from, list);
  m.servers[i]->command({"SET", redlock::Names{"k"}.record, record});
}

}  // namespace

TEST_CASE(
    "two lists of masters, three of them against five: the second is refused, with both lists "
    "named") {
  RedlockMasters m;
  once(m, {0, 1, 2});
  m.servers[2]->freeze();
  auto holder = open_redlock(url_of(m, {0, 1, 2}), patient());
  const Lease held = granted_within(*holder, request(key("k"), 300s));
  m.servers[2]->thaw();
  // Three of five are free.
  const auto p = answered_try(url_of(m, {0, 1, 2, 3, 4}));
  CHECK_FALSE(is_granted(p));
  const std::string why = refused(p);
  CHECK(why.find(m.name(0)) != why.npos);
  CHECK(why.find(m.name(4)) != why.npos);
  CHECK(kept(holder->renew(held, 300s)));
  for (const std::size_t i : {3, 4}) CHECK(eventually([&] { return m.value(i, "k").empty(); }));
  CHECK(holder->release(held) == Released::yes);
  CHECK_FALSE(
      refused(answered_try(url_of(m, {0, 1, 2, 3, 4}))).empty());  // even when the key is free
  CHECK(is_granted(answered_try(url_of(m, {2, 1, 0}))));           // the order does not matter
}

TEST_CASE("two lists of masters, one or two of three moved: the second is refused") {
  RedlockMasters m;
  once(m, {0, 1, 2});
  auto holder = open_redlock(url_of(m, {0, 1, 2}), patient());
  const Lease held = granted_within(*holder, request(key("k"), 300s));
  for (const std::size_t moved : {0, 1, 2}) {
    CHECK_FALSE(refused(answered_try(url_of(m, {(moved + 1) % 3, (moved + 2) % 3, 3}))).empty());
    // where the others are a majority
    CHECK_FALSE(refused_by_all(url_of(m, {moved, 3, 4})).empty());
  }
  CHECK_FALSE(refused(answered_try(fmt::format("redlock://localhost:{},{},{}?restart_grace=0",
                                               m.servers[0]->port(), m.name(1),
                                               m.name(2))))
                  .empty());  // the same host by another name
  CHECK(holder->check(key("k"), held.token) == Validity::valid);
  CHECK(kept(holder->renew(held, 300s)));
  CHECK(holder->release(held) == Released::yes);
}

TEST_CASE("a late list message after the end of the grant writes nothing") {
  RedlockMasters m;
  once(m, {0, 1, 2});
  auto holder = open_redlock(url_of(m, {0, 1, 2}), patient());
  const Lease held = granted_within(*holder, request(key("k"), 300s));
  REQUIRE(holder->release(held) == Released::yes);
  once(m, {0, 1, 2, 3, 4}, change);
  const redlock::Names at{"k"};
  for (const std::size_t i : {0, 1, 2}) {
    const std::string before = known_list(m, i);
    const std::string token = std::to_string(held.token);
    for (const char* mark : {"0", "1"})
      CHECK(m.servers[i]
                ->command({"EVAL", redlock::scripts::list.text, "3", at.lock, at.record, at.wake,
                           "1", held.owner.hex(), token, "old:6379/0", mark})
                .number_at(2) == 0);
    CHECK(known_list(m, i) == before);
  }
}

TEST_CASE(
    "the list is changed while a job runs: the change waits for it, then the old list is refused") {
  RedlockMasters m;
  once(m, {0, 1, 2});
  auto holder = open_redlock(url_of(m, {0, 1, 2}), patient());
  m.servers[0]->freeze();
  Lease held = granted_within(*holder, request(key("k"), 300s));  // by two of three
  m.servers[0]->thaw();
  auto changer = open_redlock(url_of(m, {0, 1, 2, 3, 4}, change), patient());
  auto waiter = *changer->enqueue(request(key("k"), 300s));
  for (int i = 0; i < 3; ++i) {
    const auto p = waiter->poll(0s);
    CHECK_FALSE(is_granted(p));  // though three of five are free
    CHECK((p || retryable(p.error().code)));
    CHECK(kept(renewed(*holder, held, 300s)));
  }
  CHECK(holder->release(held) == Released::yes);
  const Lease changed = granted_within(*waiter);
  CHECK(changed.token > held.token);
  CHECK_FALSE(refused(answered_try(*holder)).empty());
  CHECK(changer->release(changed) == Released::yes);
  CHECK_FALSE(refused(answered_try(*holder)).empty());
  once(m, {0, 1, 2, 3, 4});  // the item is no longer needed
  CHECK_FALSE(refused(answered_try(url_of(m, {0, 1, 2}))).empty());
  once(m, {0, 1, 2}, change);  // and back
  once(m, {0, 1, 2});
}

TEST_CASE("a change of the list needs every master that was kept, and at least half must be kept") {
  RedlockMasters m;
  once(m, {0, 1, 2});
  m.servers[1]->freeze();
  auto changer = open_redlock(url_of(m, {0, 1, 3}, change), quick(500ms, 500ms));
  std::string why;
  CHECK(one_of_five([&] {
    const auto p = one_try(*changer);  // the other two are a majority
    REQUIRE_FALSE(p);
    CHECK(retryable(p.error().code));
    why = p.error().message;
    return why.find(m.name(1)) != why.npos;
  }));
  INFO(why);
  m.servers[1]->thaw();
  CHECK(is_granted(answered_try(url_of(m, {0, 1, 2}))));  // nothing was changed
  REQUIRE(open_redlock(url_of(m, {0, 1, 2}), patient())->force_release(key("k"), std::nullopt) ==
          Released::yes);
  CHECK(refused(answered_try(url_of(m, {2, 3, 4}, change))).find("keeps 1 of 3") !=
        std::string::npos);
  once(m, {0, 1, 3}, change);
  CHECK_FALSE(refused(answered_try(url_of(m, {0, 1, 2}))).empty());
}

TEST_CASE(
    "an unfinished change of the list is refused with both lists, and can be finished or undone") {
  for (const bool back : {false, true}) {
    CAPTURE(back);
    RedlockMasters m;
    const std::vector<std::size_t> before{0, 1, 2}, after{0, 1, 2, 3, 4};
    once(m, before);
    for (const std::size_t i : {0, 1}) set_list(m, i, "?" + known_list(m, i));
    CHECK(refused(answered_try(url_of(m, before))).find("not finished") != std::string::npos);
    CHECK_FALSE(refused(answered_try(url_of(m, after))).empty());
    once(m, back ? before : after, change);
    once(m, back ? before : after);
    CHECK_FALSE(refused(answered_try(url_of(m, back ? after : before))).empty());
  }
}

TEST_CASE("a handle with another list of masters can be neither renewed nor checked") {
  RedlockMasters m;
  once(m, {0, 1, 2});
  auto holder = open_redlock(url_of(m, {0, 1, 2}), patient());
  const Lease held = granted_within(*holder, request(key("k"), 300s));
  const Lease handle{held.key, held.owner};
  const auto wrong = open_redlock(url_of(m, {1}), patient());
  CHECK(kept(renewed(*holder, held, 300s)));
  REQUIRE(eventually([&] { return votes_of(m, "k", held.owner) == 3; }));
  const auto renewal = wrong->renew(handle, 300s);
  REQUIRE_FALSE(renewal);
  CHECK(renewal.error().code == Errc::usage);
  const auto valid = wrong->check(held.key, held.owner);
  REQUIRE_FALSE(valid);
  CHECK(valid.error().code == Errc::usage);
  CHECK(kept(holder->renew(held, 300s)));
}

TEST_CASE("a late forced release removes nothing newer") {
  RedlockMasters m{{.proxied = true}};
  auto admin = open_redlock(m.proxied_url(), quick(2s, long_enough));
  auto holder = open_redlock(m.proxied_url(), quick(2s, long_enough));
  const Lease held = granted_within(*holder, request(key("k"), 300s));
  REQUIRE(has_all_votes(m, *holder, held, "k", 300s));
  // At every master, which then knows the script: what was not read in time stays.
  REQUIRE(eventually([&] {
    return admin->force_release(key("k"), std::nullopt) && votes_of(m, "k", held.owner) == 0;
  }));
  // It is read at every master, or else with another connection: a busy machine may leave one out.
  const auto all_are_asked = [&] {
    const Lease next = granted_within(*holder, request(key("k"), 300s));
    REQUIRE(has_all_votes(m, *holder, next, "k", 300s));
    for (auto& p : m.proxies) p->hold(std::string{redlock::scripts::force_release.sha});
    bool all = !admin->force_release(key("k"), std::nullopt);  // no answer in time
    for (auto& p : m.proxies) all &= p->holds_one(1s);
    REQUIRE(holder->release(next));
    for (auto& p : m.proxies)
      if (!all) p->let_go();
    return all;
  };
  int tries = 1;
  while (!all_are_asked()) REQUIRE(++tries <= 10);
  const Lease last = granted_within(*holder, request(key("k"), 300s));
  REQUIRE(eventually([&] { return votes_of(m, "k", last.owner) >= 3; }));
  for (auto& p : m.proxies) p->let_go();
  for (int i = 0; i < 20; ++i) REQUIRE(kept(renewed(*holder, last, 300s)));
}
