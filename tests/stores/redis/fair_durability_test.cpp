// SPDX-License-Identifier: Apache-2.0
// Recipe `fair` on servers that may have lost a grant: restarted ones, replicas, and masters with
// too few of them.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "support/redis_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

TEST_CASE("after a restart nothing is granted for restart_grace, even with every write on disk") {
  const Key key = *Key::parse("grace");
  SECTION("not durable") {
    RedisServer server;
    auto backend = open_redis(server.url() + "?restart_grace=2500ms");  // to see its end
    Request once = request(key, 2s);
    once.wait = false;
    const auto p = (*backend->enqueue(once))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::unavailable);
    CHECK(p.error().message.find("restarted") != std::string::npos);
    auto waiter = *backend->enqueue(request(key, 2s));
    const auto w = waiter->poll(100ms);
    REQUIRE((w && std::holds_alternative<Waiting>(*w)));
    CHECK(backend->health().grants_nothing);
    CHECK(std::get<Waiting>(*w).why.find("grants resume in") != std::string::npos);
    CHECK(backend->inspect(key).value()->waiters.size() == 1);  // a place, and no grant
    CHECK(backend->inspect(key).value()->fence == 0);
    CHECK(std::holds_alternative<Granted>(*waiter->poll(10s)));
    CHECK(std::stoi(info_field(server, "server", "uptime_in_seconds")) >= 2);
  }
  SECTION("on disk: its earlier grant is kept, and nothing else is granted") {
    RedisServer server{
        {.config = {"appendonly yes", "appendfsync always"}, .uptime = std::chrono::seconds{100}}};
    auto backend = open_redis(server.url());
    const Lease held = acquire_or_fail(*backend, request(key));
    server.restart();
    CHECK(std::holds_alternative<Kept>(*backend->renew(held, 10s)));
    CHECK(std::holds_alternative<Waiting>(
        *(*backend->enqueue(request(*Key::parse("free"))))->poll(0s)));
  }
}

TEST_CASE("?replicas=N: a grant that too few replicas have is released") {
  RedisServer server;
  Settings settings;
  settings.op_timeout = 600ms;
  auto backend = open_redis(server.url() + "?restart_grace=0&replicas=1", settings);
  const Key key = *Key::parse("copies");
  const auto p = (*backend->enqueue(request(key)))->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("0 of 1 replicas") != std::string::npos);
  CHECK((*backend->inspect(key).value()).holders.empty());

  RedisServer replica{{.config = {fmt::format("replicaof 127.0.0.1 {}", server.port()),
                                  "repl-diskless-load swapdb"}}};
  REQUIRE(server.command({"CONFIG", "SET", "repl-diskless-sync-delay", "0"}).text == "OK");
  REQUIRE(replicates(server));
  settings.op_timeout = 20s;  // a replica may be slow to answer, but not refuse
  auto patient = open_redis(server.url() + "?restart_grace=0&replicas=1", settings);
  const Lease held = acquire_or_fail(*patient, request(key));
  CHECK(std::holds_alternative<Kept>(*patient->renew(held, 10s)));
  replica.kill();
  const auto renewal = backend->renew(held, 10s);
  REQUIRE_FALSE(renewal);  // unknown: the deadline stays
  CHECK(retryable(renewal.error().code));
}

TEST_CASE("a replica is refused") {
  RedisServer master;
  RedisServer replica{{.config = {fmt::format("replicaof 127.0.0.1 {}", master.port())}}};
  auto backend = open_redis(replica.url() + "?restart_grace=0");
  const auto p = (*backend->enqueue(request(*Key::parse("k"))))->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("replica") != std::string::npos);
}
