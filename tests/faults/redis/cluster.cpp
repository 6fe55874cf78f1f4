// SPDX-License-Identifier: Apache-2.0
#include "redis/cluster.hpp"
#include <set>
#include <thread>
#include "groups.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("cluster: slots are computed as the server does") {
  ClusterGroup g;
  for (const char* text : {"foo", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "", "\xc3\xbc", "}a{b"})
    CHECK(redis::slot_of(text) == g.servers[0]->command({"CLUSTER", "KEYSLOT", text}).integer);
}

TEST_CASE("cluster: locks are spread, everything works on each, list sees all") {
  ClusterGroup g;
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    const std::string items = std::string_view{recipe} == "fair" ? "?restart_grace=0" : "?restart_grace=0&prefix=locks:";
    auto backend = open_redis(g.url(items), quick(1s), recipe), other = open_redis(g.url(items), quick(1s), recipe);
    std::vector<Lease> leases;
    for (int i = 0; i < 12; ++i) {
      const Key k = *Key::parse(fmt::format("job {}", i));
      leases.push_back(acquire_or_fail(*backend, request(k)));
      auto waiter = *other->enqueue(request(k));
      CHECK(std::holds_alternative<Waiting>(*waiter->poll(0s)));
      CHECK(waiter->cancel());
      CHECK(kept(backend->renew(leases.back(), 10s)));
    }
    CHECK(other->list().value().size() == 12);
    for (int i = 0; i < 3; ++i) CHECK(g.servers[i]->command({"DBSIZE"}).integer > 0);
    for (const Lease& l : leases) CHECK(backend->release(l) == Released::yes);
    for (int i = 0; i < 3; ++i) g.servers[i]->command({"FLUSHALL"});
  }
  auto set = open_redis(g.url(), quick(1s), "set");
  CHECK(set->enqueue(request(key("a}b"))).error().code == Errc::usage);
  CHECK(set->enqueue(request(key("x{a}b"))));
  auto wrong = open_redis(g.servers[0]->url() + "?restart_grace=0", quick(1s));
  bool told = false;
  for (int i = 0; i < 12; ++i) {
    const auto p = (*wrong->enqueue(request(*Key::parse(fmt::format("job {}", i)))))->poll(0s);
    if (!p) told = p.error().message.find("use redis+cluster://") != std::string::npos;
  }
  CHECK(told);
  auto single = open_redis(fmt::format("redis+cluster://127.0.0.1:{}", RedisServer{}.port()), quick(1s));
  CHECK_FALSE((*single->enqueue(request(key("k"))))->poll(0s));
}

TEST_CASE("cluster: a slot that has moved is followed, one that is being moved is waited for") {
  ClusterGroup g;
  auto backend = open_redis(g.url(), quick(1s));
  const Key k = key("moved");
  const std::string slot = std::to_string(redis::slot_of("dlock:{moved}:"));
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));  // the map is known, and the fence is there
  const std::size_t from = static_cast<std::size_t>(redis::slot_of("dlock:{moved}:") / 5461) % 3, to = (from + 1) % 3;
  const Lease held = acquire_or_fail(*backend, request(k));
  REQUIRE(g.servers[to]->command({"CLUSTER", "SETSLOT", slot, "IMPORTING", g.id(from)}).text == "OK");
  REQUIRE(g.servers[from]->command({"CLUSTER", "SETSLOT", slot, "MIGRATING", g.id(to)}).text == "OK");
  const auto during = backend->renew(held, 10s);  // some keys of the lock do not exist: TRYAGAIN
  REQUIRE_FALSE(during);
  CHECK(retryable(during.error().code));
  for (const char* part : {"holders", "fence"}) {
    const Reply r = g.servers[from]->command(
        {"MIGRATE", "127.0.0.1", std::to_string(g.servers[to]->port()), fmt::format("dlock:{{moved}}:{}", part), "0", "5000"});
    REQUIRE(r.text == "OK");
  }
  const auto asked = backend->renew(held, 10s);  // ASK
  REQUIRE_FALSE(asked);
  CHECK(retryable(asked.error().code));
  for (const std::size_t i : {to, from})
    REQUIRE(g.servers[i]->command({"CLUSTER", "SETSLOT", slot, "NODE", g.id(to)}).text == "OK");
  CHECK(kept(backend->renew(held, 10s)));
  CHECK(backend->check(k, held.token) == Validity::valid);
  CHECK(backend->release(held) == Released::yes);
}

TEST_CASE("cluster: a master dies: its replica is followed while holding and while waiting") {
  ClusterGroup g;
  auto holder = open_redis(g.url("?restart_grace=0&replicas=1"), quick(700ms)), other = open_redis(g.url(), quick(700ms));
  std::string name;
  for (int i = 0; name.empty(); ++i)
    if (redis::slot_of(fmt::format("dlock:{{k{}}}:", i)) < 5461) name = fmt::format("k{}", i);
  const Key k = *Key::parse(name);
  const Lease held = granted_within(**holder->enqueue(request(k, 30s)), 10s);  // a replica may be slow on a busy machine
  auto waiter = *other->enqueue(request(k, 30s));
  REQUIRE(waiter->poll(100ms));
  REQUIRE(g.servers[0]->command({"WAIT", "1", "3000"}).integer == 1);
  g.servers[0]->kill();
  const Deadline killed = Clock::now();
  auto plain = open_redis(g.url(), quick(700ms));  // with one replica, promoted, nobody could confirm
  Result<Renewal> renewal = plain->renew(held, 30s);
  for (const Deadline until = Clock::now() + 20s; !renewal && Clock::now() < until; ::usleep(50'000))
    renewal = plain->renew(held, 30s);
  REQUIRE(kept(renewal));
  WARN("renewed on the promoted replica " << (Clock::now() - killed) / 1ms << " ms after the kill");
  CHECK(info_field(*g.servers[3], "replication", "role") == "master");
  CHECK(plain->release(held) == Released::yes);
  CHECK(granted_within(*waiter, 15s).token > held.token);
  g.servers[0]->start();  // comes back as a replica
  eventually("the old master follows", 20s, [&] { return info_field(*g.servers[0], "replication", "role") == "slave"; });
  acquire_or_fail(*open_redis(g.url(), quick(1s)), request(*Key::parse("another")));
}
