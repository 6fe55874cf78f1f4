// SPDX-License-Identifier: Apache-2.0
// What servers do: stop, die, come back empty, forget scripts, run full, change their role, lose keys.
#include <thread>
#include "faults.hpp"
#include "redis/fair_recipe.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a frozen server: the renewal ends in time and is kept once it goes on") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Lease lease = acquire_or_fail(*backend, request(key("frozen")));
  server.freeze();
  const auto began = Clock::now();
  CHECK_FALSE(backend->renew(lease, 10s));
  CHECK(Clock::now() - began < 700ms);
  server.thaw();
  CHECK(kept(backend->renew(lease, 10s)));
}

TEST_CASE("a server frozen for longer than the lease has ended it, and says so") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick(200ms));
  const Lease lease = acquire_or_fail(*backend, request(key("frozen"), 600ms));
  server.freeze();
  while (Clock::now() < lease.deadline + 100ms) CHECK_FALSE(backend->renew(lease, 600ms));
  server.thaw();
  CHECK(lost(backend->renew(lease, 600ms)));
}

TEST_CASE("a server that dies and comes back empty has lost the lease; its successor waits out the grace, and tokens rise") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Key k = key("forgotten");
  const Lease lease = acquire_or_fail(*backend, request(k));
  server.kill();
  const auto answer = backend->renew(lease, 10s);
  REQUIRE_FALSE(answer);
  CHECK(retryable(answer.error().code));
  server.start();
  CHECK(lost(backend->renew(lease, 10s)));
  auto careful = open_redis(server.url() + "?restart_grace=2s");
  auto waiter = *careful->enqueue(request(k));
  CHECK(std::holds_alternative<Waiting>(*waiter->poll(0s)));
  const Lease next = granted_within(*waiter, 10s);
  CHECK(next.token > lease.token);
}

TEST_CASE("a waiter survives the restart of a durable server") {
  RedisServer server{{.config = {"appendonly yes", "appendfsync always"}}};
  auto holder = open_redis(server.url());
  auto backend = open_redis(server.url(), quick());
  const Key k = key("durable");
  const Lease held = acquire_or_fail(*holder, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(waiter->poll(100ms));
  server.restart();
  CHECK(kept(holder->renew(held, 10s)));
  CHECK(holder->release(held) == Released::yes);
  CHECK(granted_within(*waiter, 10s).token > held.token);
}

TEST_CASE("connections killed by the server") {
  RedisServer server;
  auto holder = open_redis(server.url() + "?restart_grace=0", quick());
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Key k = key("client-kill");
  const Lease held = acquire_or_fail(*holder, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(waiter->poll(50ms));
  REQUIRE(blocked_clients(server, 1));
  server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  CHECK(kept(holder->renew(held, 10s)));
  const auto still = waiter->poll(50ms);
  REQUIRE((still && std::holds_alternative<Waiting>(*still)));
  CHECK(std::get<Waiting>(*still).ahead == 0);
  CHECK(holder->release(held) == Released::yes);
  granted_within(*waiter, 5s);
}

TEST_CASE("a server that forgets its scripts is sent their text once") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("flush");
  for (int i = 0; i < 3; ++i) {
    server.command({"SCRIPT", "FLUSH"});
    const Lease lease = acquire_or_fail(*backend, request(k));
    server.command({"SCRIPT", "FLUSH"});
    CHECK(kept(backend->renew(lease, 10s)));
    server.command({"SCRIPT", "FLUSH"});
    CHECK(backend->release(lease) == Released::yes);
  }
  // By text once each, then by SHA-1: the server counts.
  CHECK(info_field(server, "commandstats", "cmdstat_eval").starts_with("calls=9,"));
}

TEST_CASE("CLIENT PAUSE") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Lease lease = acquire_or_fail(*backend, request(key("pause")));
  server.command({"CLIENT", "PAUSE", "900", "ALL"});
  const auto answer = backend->renew(lease, 10s);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Errc::timed_out);
  const Deadline until = Clock::now() + 5s;
  Result<Renewal> again = backend->renew(lease, 10s);
  while (!again && Clock::now() < until) again = backend->renew(lease, 10s);
  CHECK(kept(again));
}

TEST_CASE("something else lives under our key: refused, named, and left alone") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("theirs");
  for (const char* part : {"holders", "queue", "fence"}) {
    const std::string name = fmt::format("dlock:{{theirs}}:{}", part);
    CAPTURE(name);
    server.command({"FLUSHDB"});
    server.command({"SADD", name, "not ours"});
    const auto p = (*backend->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find("something else lives under this key") != std::string::npos);
    CHECK(server.command({"SMEMBERS", name}).items.size() == 1);
    CHECK(server.command({"DBSIZE"}).integer == 1);
  }
  for (const auto& [part, value] :
       {std::pair{"holders", "x"}, std::pair{"fence", "12three"}, std::pair{"fence", "9007199254740993"}}) {
    CAPTURE(part, value);
    server.command({"FLUSHDB"});
    if (std::string_view{part} == "holders") server.command({"HSET", "dlock:{theirs}:holders", "someone", value});
    else server.command({"SET", "dlock:{theirs}:fence", value});
    const auto p = (*backend->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
  }
  server.command({"FLUSHDB"});
  server.command({"SET", "dlock:{theirs}:holders", "junk"});
  CHECK(backend->force_release(k, std::nullopt) == Released::yes);  // an operator may
  acquire_or_fail(*backend, request(k));
}

TEST_CASE("keys that vanish: without holders the lease is lost, without the others only a place in the queue") {
  RedisServer server;
  auto holder = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("evicted");
  for (const char* part : {"queue", "alive", "waiters", "called"}) {
    CAPTURE(part);
    const Lease held = acquire_or_fail(*holder, request(k));
    auto one = open_redis(server.url() + "?restart_grace=0"), two = open_redis(server.url() + "?restart_grace=0");
    auto first = *one->enqueue(request(k)), second = *two->enqueue(request(k));
    REQUIRE(first->poll(0s));
    REQUIRE(second->poll(0s));
    server.command({"DEL", fmt::format("dlock:{{evicted}}:{}", part)});
    CHECK(kept(holder->renew(held, 10s)));
    CHECK(holder->release(held) == Released::yes);
    Lease a = held;
    std::thread other{[&] {
      a = granted_within(*first, 20s);
      (void)one->release(a);
    }};
    const Lease b = granted_within(*second, 20s);
    CHECK(two->release(b) == Released::yes);
    other.join();
    CHECK(a.token != b.token);
  }
  const Lease held = acquire_or_fail(*holder, request(k));
  server.command({"DEL", "dlock:{evicted}:holders"});
  auto other = open_redis(server.url() + "?restart_grace=0");
  const Lease next = acquire_or_fail(*other, request(k));
  CHECK(next.token > held.token);
  CHECK(lost(holder->renew(held, 10s)));
  CHECK(holder->release(held) == Released::was_not_held);
  CHECK(other->check(k, next.token) == Validity::valid);
}

TEST_CASE("a server that evicts: tokens rise, and who lost its record is told so") {
  RedisServer server{{.config = {"maxmemory-policy allkeys-random"}}};
  auto one = open_redis(server.url() + "?restart_grace=0"), two = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("evicted");
  std::size_t evicted = 0;
  FencingToken newest = 0;
  for (int round = 0; round < 5; ++round) {
    const Lease held = acquire_or_fail(*one, request(k, 30s));
    CHECK(held.token > newest);
    newest = held.token;
    // Memory runs out: the server deletes whatever it likes, until nothing is left to delete.
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    server.command({"SET", "more", std::string(1000, 'x')});
    server.command({"CONFIG", "SET", "maxmemory", "0"});
    const bool gone = server.command({"EXISTS", "dlock:{evicted}:holders"}).integer == 0;
    evicted += gone;
    CHECK(lost(one->renew(held, 30s)) == gone);
    if (gone) {
      const Lease next = acquire_or_fail(*two, request(k, 30s));
      CHECK(next.token > newest);  // by the server's clock, though the fence is gone, too
      newest = next.token;
      CHECK(one->release(held) == Released::was_not_held);
      CHECK(two->release(next) == Released::yes);
    } else {
      CHECK(one->release(held) == Released::yes);
    }
  }
  CHECK(evicted > 0);
}

TEST_CASE("a full server refuses grants and still takes releases") {
  RedisServer server{{.config = {"maxmemory-policy noeviction"}}};
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Key k = key("full");
  const Lease held = acquire_or_fail(*backend, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(waiter->poll(0s));
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  const auto p = (*backend->enqueue(request(key("other"))))->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("maxmemory") != std::string::npos);
  CHECK(backend->release(held) == Released::yes);
  CHECK(holders_of(*backend, k) == 0);
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  granted_within(*waiter, 5s);
}

TEST_CASE("a master that becomes a replica: waiters and holders notice, nothing is granted there") {
  RedisServer server, other;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Key k = key("demoted");
  const Lease held = acquire_or_fail(*backend, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(waiter->poll(50ms));
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
  const auto p = waiter->poll(1s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  const auto answer = backend->renew(held, 10s);
  REQUIRE_FALSE(answer);
  CHECK(retryable(answer.error().code));
  server.command({"REPLICAOF", "NO", "ONE"});
}
