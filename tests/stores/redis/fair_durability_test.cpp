// SPDX-License-Identifier: Apache-2.0
// Recipe `fair` on replicas, and on masters with too few of them.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "support/polling.hpp"
#include "support/redis_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

TEST_CASE("?replicas=N: a grant that too few replicas have is released") {
  RedisServer server;
  Settings settings;
  settings.op_timeout = 600ms;
  auto backend = open_redis(server.url() + "?restart_grace=0&replicas=1", settings);
  const Key key = *Key::parse("copies");
  std::string why;
  CHECK(one_of_five([&] {  // a busy machine may not come so far in time
    const auto p = (*backend->enqueue(request(key)))->poll(0s);
    REQUIRE_FALSE(p);
    why = p.error().message;
    return p.error().code == Errc::unavailable && why.find("0 of 1 replicas") != why.npos;
  }));
  INFO(why);
  CHECK(becomes([&] {
    const auto seen = backend->inspect(key);
    return seen && *seen && (*seen)->holders.empty();
  }));

  RedisServer replica{{.config = {fmt::format("replicaof 127.0.0.1 {}", server.port()),
                                  "repl-diskless-load swapdb"}}};
  REQUIRE(server.command({"CONFIG", "SET", "repl-diskless-sync-delay", "0"}).text == "OK");
  REQUIRE(replicates(server));
  // a replica may be slow to answer, but not refuse
  auto slow = open_redis(server.url() + "?restart_grace=0&replicas=1", patient());
  const Lease held = acquire_or_fail(*slow, request(key));
  CHECK(kept(slow->renew(held, 10s)));
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
