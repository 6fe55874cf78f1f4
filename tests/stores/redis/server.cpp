// SPDX-License-Identifier: Apache-2.0
// Faults of servers: stopped, scripts lost, memory full, role changed, keys lost. Restarts are in
// restart.cpp.
#include <thread>
#include "faults.hpp"
#include "redis/fair/fair_backend.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a server frozen for longer than the lease has ended it, and says so") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick(200ms));
  const Lease lease = acquire_or_fail(*backend, request(key("frozen"), 600ms));
  server.freeze();
  while (Clock::now() < lease.deadline + 100ms) CHECK_FALSE(backend->renew(lease, 600ms));
  server.thaw();
  CHECK(lost(renewed(*backend, lease, 600ms)));
}

TEST_CASE("a server that loses its scripts is sent their text once") {
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
  // By text once each, then by SHA-1: the server's counters show it.
  CHECK(info_field(server, "commandstats", "cmdstat_eval").starts_with("calls=9,"));
}

TEST_CASE("a foreign value under dlock's key: refused, named, and left alone") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0"),
       other = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("theirs");
  const std::string lock = "dlock:{theirs}:fence", queue = "dlock:{theirs}:queue";
  const auto refused = [&](std::string_view what) {
    const auto p = (*other->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    INFO(p.error().message);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find(what) != std::string::npos);
  };
  server.command({"SADD", lock, "not ours"});
  refused("something else lives under this key");
  CHECK(server.command({"SMEMBERS", lock}).items.size() == 1);
  CHECK(server.command({"DBSIZE"}).integer == 1);
  CHECK(other->force_release(k, FencingToken{1}).error().code == Errc::usage);
  CHECK(other->force_release(k, std::nullopt) == Released::yes);  // a forced release may remove it

  server.command({"SADD", queue, "not ours"});
  // uncontended, so the queue key is not read
  const Lease held = acquire_or_fail(*backend, request(k));
  refused("something else lives under this key");
  CHECK(server.command({"SMEMBERS", queue}).items.size() == 1);
  CHECK(kept(backend->renew(held, 10s)));
  CHECK(backend->release(held) == Released::yes);

  const std::string record = "0123456789abcdef0123456789abcdef|9|1|X|0|0|1|";
  for (const auto& fields : std::initializer_list<std::vector<std::string>>{
           {"fence", "12three", "version", "1"},
           {"fence", "9007199254740993", "version", "1"},
           {"fence", "12"},
           {"field", "of others"},
           {"fence", "12", "version", "1", "field", "x"},
           {"fence", "12", "version", "1", "12", "x"},
           {"fence", "12", "version", "1", "x", record},
           {"fence", "12", "version", "1", "wait", "x"}}) {
    CAPTURE(fields);
    server.command({"FLUSHDB"});
    std::vector<std::string_view> words{"HSET", lock};
    words.insert(words.end(), fields.begin(), fields.end());
    server.command(words);
    refused("something else lives under this key");
    CHECK(server.command({"HLEN", lock}).integer == static_cast<std::int64_t>(fields.size() / 2));
  }
}

TEST_CASE("another layout: refused with a message, by every operation, and left alone") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0", patient());
  const Key k = key("layout");
  const Lease held = acquire_or_fail(*backend, request(k));
  const std::string lock = "dlock:{layout}:fence";
  SECTION("a newer layout") {
    server.command({"HSET", lock, "version", "2"});
    const auto p = (*backend->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find("has layout 2, and this dlock knows layout 1") !=
          std::string::npos);
    CHECK(backend->inspect(k).error().message.find("layout 2") != std::string::npos);
    CHECK(backend->check(k, held.token).error().code == Errc::usage);
    CHECK(backend->force_release(k, std::nullopt).error().code == Errc::usage);
    CHECK(server.command({"HLEN", lock}).integer == 4);
  }
}

TEST_CASE(
    "lost keys: a lock is lost as a whole or not at all; a lost queue costs a place, never a "
    "grant") {
  RedisServer server;
  auto holder = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("evicted");
  for (const bool whole_queue : {true, false}) {  // or only the note that a client waits
    CAPTURE(whole_queue);
    const Lease held = acquire_or_fail(*holder, request(k));
    auto one = open_redis(server.url() + "?restart_grace=0"),
         two = open_redis(server.url() + "?restart_grace=0");
    auto first = *one->enqueue(request(k)), second = *two->enqueue(request(k));
    REQUIRE(first->poll(0s));
    REQUIRE(second->poll(0s));
    if (whole_queue) REQUIRE(server.command({"DEL", "dlock:{evicted}:queue"}).integer == 1);
    else REQUIRE(server.command({"HDEL", "dlock:{evicted}:fence", "wait"}).integer == 1);
    CHECK(kept(holder->renew(held, 10s)));
    CHECK(holder->release(held) == Released::yes);
    Lease a = held;
    std::thread other{[&] {
      a = granted_within(*first);
      (void)one->release(a);
    }};
    const Lease b = granted_within(*second);
    CHECK(two->release(b) == Released::yes);
    other.join();
    CHECK(a.token != b.token);
  }
  const Lease held = acquire_or_fail(*holder, request(k));
  server.command({"DEL", "dlock:{evicted}:fence"});
  auto other = open_redis(server.url() + "?restart_grace=0");
  const Lease next = acquire_or_fail(*other, request(k));
  CHECK(next.token > held.token);
  CHECK(lost(holder->renew(held, 10s)));
  CHECK(holder->release(held) == Released::was_not_held);
  CHECK(other->check(k, next.token) == Validity::valid);
}

TEST_CASE("a server that evicts: tokens rise, and a holder whose record was evicted is told so") {
  RedisServer server{{.config = {"maxmemory-policy allkeys-random"}}};
  auto one = open_redis(server.url() + "?restart_grace=0"),
       two = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("evicted");
  std::size_t evicted = 0;
  FencingToken newest = 0;
  for (int round = 0; round < 5; ++round) {
    const Lease held = acquire_or_fail(*one, request(k, 30s));
    CHECK(held.token > newest);
    newest = held.token;
    // Memory runs out: the server evicts keys until none is left.
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    server.command({"SET", "more", std::string(1000, 'x')});
    server.command({"CONFIG", "SET", "maxmemory", "0"});
    const bool gone = server.command({"EXISTS", "dlock:{evicted}:fence"}).integer == 0;
    evicted += gone;
    CHECK(lost(one->renew(held, 30s)) == gone);
    if (gone) {
      const Lease next = acquire_or_fail(*two, request(k, 30s));
      CHECK(next.token > newest);  // from the server's clock, though the fence is gone, too
      newest = next.token;
      CHECK(one->release(held) == Released::was_not_held);
      CHECK(two->release(next) == Released::yes);
    } else {
      CHECK(one->release(held) == Released::yes);
    }
  }
  CHECK(evicted > 0);
}

TEST_CASE("a full server refuses grants but accepts renewals and releases") {
  RedisServer server{{.config = {"maxmemory-policy noeviction"}}};
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Key k = key("full");
  const Lease held = acquire_or_fail(*backend, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(waits(*waiter, 0s));
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  const auto p = (*backend->enqueue(request(key("other"))))->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("maxmemory") != std::string::npos);
  CHECK(kept(renewed(*backend, held, 10s)));  // and renewals, as SET's own PEXPIRE is
  release_or_fail(*backend, held);
  CHECK(holders_of(*backend, k) == 0);
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  granted_within(*waiter);
}

TEST_CASE("a master that becomes a replica: waiters and holders notice, nothing is granted there") {
  RedisServer server, other;
  auto backend = open_redis(server.url() + "?restart_grace=0", quick());
  const Key k = key("demoted");
  const Lease held = acquire_or_fail(*backend, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(waits(*waiter, 50ms));
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
  const auto p = waiter->poll(1s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  const auto answer = backend->renew(held, 10s);
  REQUIRE_FALSE(answer);
  CHECK(retryable(answer.error().code));
  server.command({"REPLICAOF", "NO", "ONE"});
}
