// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"
#include "redis/wire/locator.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("cluster: slots are computed as the server does") {
  ClusterGroup g;
  for (const char* text : {"foo", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap",
                           "foo{bar}{zap}", "", "\xc3\xbc", "}a{b"})
    CHECK(redis::slot_of(text) == g.servers[0]->command({"CLUSTER", "KEYSLOT", text}).integer);
}

TEST_CASE("cluster: locks are spread, every operation works on each, list shows all") {
  ClusterGroup g;
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    const std::string items =
        std::string_view{recipe} == "fair" ? "?restart_grace=0" : "?restart_grace=0&prefix=locks:";
    auto backend = open_redis(g.url(items), quick(1s), recipe),
         other = open_redis(g.url(items), quick(1s), recipe);
    std::vector<Lease> leases;
    for (int i = 0; i < 12; ++i) {
      const Key k = *Key::parse(fmt::format("job {}", i));
      leases.push_back(acquire_or_fail(*backend, request(k)));
      auto waiter = *other->enqueue(request(k));
      CHECK(waits(*waiter, 0s));
      CHECK(waiter->cancel());
      CHECK(kept(renewed(*backend, leases.back(), 10s)));
    }
    CHECK(answered([&] { return list(*other); }).size() == 12);
    for (int i = 0; i < 3; ++i) CHECK(g.servers[i]->command({"DBSIZE"}).integer > 0);
    for (const Lease& l : leases) release_or_fail(*backend, l);
    for (int i = 0; i < 3; ++i) g.servers[i]->command({"FLUSHALL"});
  }
  auto set = open_redis(g.url(), quick(1s), "set");
  for (const char* text : {"a}b", "{}x", "{}{a}", "a}b{c"}) {
    CAPTURE(text);
    const auto refused = set->enqueue(request(key(text)));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::usage);
    CHECK(
        refused.error().message.find(
            "with a '}' needs a part in braces before that, as in a{b}c, and something in these") !=
        std::string::npos);
  }
  CHECK(set->enqueue(request(key("x{a}b"))));
  auto wrong = open_redis(g.servers[0]->url() + "?restart_grace=0", quick(1s));
  bool told = false;
  for (int i = 0; i < 12; ++i) {
    const auto p = (*wrong->enqueue(request(*Key::parse(fmt::format("job {}", i)))))->poll(0s);
    if (!p) told = p.error().message.find("use redis+cluster://") != std::string::npos;
  }
  CHECK(told);
  auto single =
      open_redis(fmt::format("redis+cluster://127.0.0.1:{}", RedisServer{}.port()), quick(1s));
  CHECK_FALSE((*single->enqueue(request(key("k"))))->poll(0s));
}

TEST_CASE(
    "cluster: a slot that moves for longer than the ttl: held locks survive, and are found when it "
    "has moved") {
  ClusterGroup g;
  constexpr auto ttl = 1500ms;  // short, because the slot moves for longer than that, six times
  int n = 0;
  for (const char* recipe : {"fair", "set", "setnx-expire"}) {
    for (const bool moved : {false, true}) {  // the lock itself is moved while held
      CAPTURE(recipe, moved);
      const bool fair = std::string_view{recipe} == "fair";
      // An attempt counts if this process got its turns in time.
      CHECK(one_of_five([&] {
        const Key k = *Key::parse(fmt::format("open{}", n++));
        const std::string lock = fair ? fmt::format("dlock:{{{}}}:fence", k.text()) : k.text();
        auto backend = open_redis(g.url(), quick(1s), recipe),
             other = open_redis(g.url(), patient(), recipe);
        // the slot map is known, and the fence exists
        release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
        Lease held = acquire_or_fail(*backend, request(k, ttl));
        Resharding slot{g, lock};
        if (moved) CHECK(slot.move(lock));
        for (const Deadline until = Clock::now() + ttl * 3 / 2; Clock::now() < until;
             ::usleep(150'000)) {
          const auto renewal = backend->renew(held, ttl);
          if (Clock::now() >= held.deadline) return slot.finish(), false;
          if (!renewal) continue;
          REQUIRE(kept(renewal));
          CHECK(std::get<Kept>(*renewal).lease.token == held.token);
          held = std::get<Kept>(*renewal).lease;
        }
        held = std::get<Kept>(renewed(*backend, held, 600s)).lease;
        if (fair) {
          CHECK(other->check(k, held.token) == Validity::valid);
          Request once = request(k);
          once.wait = false;
          CHECK(std::holds_alternative<Busy>(*(*other->enqueue(once))->poll(0s)));
        }
        release_or_fail(*backend, held);
        if (fair) {  // one key is enough
          const Lease next = acquire_or_fail(*other, request(k));
          CHECK(next.token > held.token);
          CHECK(kept(renewed(*other, next, 10s)));
          release_or_fail(*other, next);
        }
        slot.finish();
        return true;
      }));
    }
  }
}

TEST_CASE("cluster: a new key, and one with a waiter, in a moving slot") {
  ClusterGroup g;
  auto backend = open_redis(g.url(), quick(1s)), other = open_redis(g.url(), quick(1s));
  {
    Resharding slot{g, "dlock:{new}:fence"};
    const Lease lease = acquire_or_fail(*backend, request(key("new")));
    CHECK(kept(renewed(*backend, lease, 10s)));
    release_or_fail(*backend, lease);
    slot.finish();
    CHECK(acquire_or_fail(*other, request(key("new"))).token > lease.token);
  }
  for (const int moved : {0, 1, 2}) {  // moved: nothing; the lock; lock and queue
    CAPTURE(moved);
    const std::string name = fmt::format("waited{}", moved),
                      base = fmt::format("dlock:{{{}}}:", name);
    const Key k = *Key::parse(name);
    const Lease held = acquire_or_fail(*backend, request(k, 600s));
    auto waiter = *other->enqueue(request(k, 9s));  // dropped after a third of that without a poll
    REQUIRE(waits(*waiter, 50ms));
    Resharding slot{g, base + "fence"};
    if (moved > 0) CHECK(slot.move(base + "fence"));
    if (moved > 1) CHECK(slot.move(base + "queue"));
    CHECK(kept(renewed(*backend, held, 600s)));
    release_or_fail(*backend, held);
    const auto released = Clock::now();
    const Lease next = granted_within(*waiter);
    WARN("granted " << (Clock::now() - released) / 1ms
                    << " ms after the release, keys moved: " << moved);
    CHECK(next.token > held.token);
    release_or_fail(*other, next);
    slot.finish();
  }
}

TEST_CASE("cluster: a master dies: holders and waiters go on with its replica") {
  ClusterGroup g;
  auto holder = open_redis(g.url("?restart_grace=0&replicas=1"), quick(700ms)),
       other = open_redis(g.url(), quick(700ms));
  std::string name;
  for (int i = 0; name.empty(); ++i)
    if (redis::slot_of(fmt::format("dlock:{{k{}}}:", i)) < 5461) name = fmt::format("k{}", i);
  const Key k = *Key::parse(name);
  // a replica may be slow on a busy machine
  const Lease held = granted_within(**holder->enqueue(request(k, 600s)));
  auto waiter = *other->enqueue(request(k, 600s));
  REQUIRE(waits(*waiter, 100ms));
  REQUIRE(g.servers[0]->command({"WAIT", "1", "20000"}).integer == 1);
  g.servers[0]->kill();
  const Deadline killed = Clock::now();
  // with one replica, promoted, no confirmation is possible
  auto plain = open_redis(g.url(), quick(700ms));
  REQUIRE(kept(renewed(*plain, held, 600s)));
  WARN("renewed on the promoted replica " << (Clock::now() - killed) / 1ms << " ms after the kill");
  CHECK(info_field(*g.servers[3], "replication", "role") == "master");
  release_or_fail(*plain, held);
  CHECK(granted_within(*waiter).token > held.token);
  g.servers[0]->start();  // comes back as a replica
  eventually("the old master follows",
             [&] { return info_field(*g.servers[0], "replication", "role") == "slave"; });
  acquire_or_fail(*open_redis(g.url(), quick(1s)), request(*Key::parse("another")));
}

TEST_CASE("cluster: holders, waiters and new contenders leave a master that is cut off") {
  ClusterGroup g;
  std::string name;
  for (int i = 0; name.empty(); ++i)
    if (redis::slot_of(fmt::format("dlock:{{k{}}}:", i)) < 5461) name = fmt::format("k{}", i);
  const Key k = *Key::parse(name);
  auto holder = open_redis(g.url(), quick(2s)), waiting = open_redis(g.url(), quick(2s));
  const Lease held = acquire_or_fail(*holder, request(k, 600s));
  auto waiter = *waiting->enqueue(request(k, 600s));
  REQUIRE(waits(*waiter, 100ms));
  REQUIRE(g.servers[0]->command({"WAIT", "1", "20000"}).integer == 1);
  // It reaches no other node; the others have promoted its replica.
  for (int i = 1; i < 4; ++i)
    REQUIRE(g.servers[0]->command({"CLUSTER", "FORGET", g.id(i)}).text == "OK");
  REQUIRE(g.servers[3]->command({"CLUSTER", "FAILOVER", "TAKEOVER"}).text == "OK");
  eventually("its replica is the master",
             [&] { return info_field(*g.servers[3], "replication", "role") == "master"; });
  eventually("the one that is cut off says so",
             [&] { return g.cluster_field(*g.servers[0], "cluster_state") == "fail"; });
  eventually("the others go on",
             [&] { return g.cluster_field(*g.servers[1], "cluster_state") == "ok"; });
  CHECK(kept(renewed(*holder, held, 600s)));
  auto fresh = open_redis(fmt::format("{}", g.url()), quick(2s));  // which asks it first
  acquire_or_fail(*fresh, request(*Key::parse(name + "{" + name + "}")));
  CHECK(fresh->check(k, held.token) == Validity::valid);
  release_or_fail(*holder, held);
  CHECK(granted_within(*waiter).token > held.token);
}

TEST_CASE("cluster: a silent first node does not delay the others") {
  ClusterGroup g;
  std::string name;
  for (int i = 0; name.empty(); ++i)
    if (redis::slot_of(fmt::format("dlock:{{k{}}}:", i)) > 5461) name = fmt::format("k{}", i);
  g.servers[0]->freeze();
  CHECK(ends_within(5s, [&] {  // a third of the 30 s would be its share
    auto backend = open_redis(g.url(), quick(30s, 30s));
    release_or_fail(*backend, acquire_or_fail(*backend, request(*Key::parse(name))));
  }));
  g.servers[0]->thaw();
}

TEST_CASE("cluster: a password that the nodes refuse is read again from its file") {
  ClusterGroup g;
  std::vector<RedisServer*> all;
  for (auto& s : g.servers) all.push_back(&*s);
  change_password_while_held(g.url(), ChangingPassword{all});
}
