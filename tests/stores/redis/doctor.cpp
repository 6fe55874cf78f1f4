// SPDX-License-Identifier: Apache-2.0
// What --doctor reports on fit and unfit servers.
#include <cmath>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;
using Level = Finding::Level;

namespace {

std::vector<Finding> doctor(const std::string& url, std::string_view recipe = "fair") {
  auto found = open_redis(url, quick(5s, 60s), recipe)->doctor();
  INFO((found ? "" : found.error().message));
  REQUIRE(found);
  for (const Finding& f : *found) CHECK(f.advice.empty() == (f.level == Level::good));
  return *found;
}

const Finding& about(const std::vector<Finding>& found, const std::string& what) {
  for (const Finding& f : found)
    if (f.what == what) return f;
  FAIL("nothing about " << what);
  throw 0;
}

}  // namespace

TEST_CASE("doctor: a server that is fit") {
  RedisServer server{{.config = {"appendonly yes", "appendfsync always", "maxmemory 100mb",
                                 "maxmemory-policy noeviction"},
                      .uptime = std::chrono::seconds{100}}};
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    const auto found = doctor(server.url(), recipe);
    for (const Finding& f : found) {
      CAPTURE(recipe, f.what, f.seen);
      CHECK(f.level == Level::good);
    }
    CHECK(found.size() == 7);
    CHECK(about(found, "restart_grace").seen ==
          "30s, to be the same for all clients; longer leases are refused");
    CHECK(about(found, "maxmemory-policy").seen == "noeviction");
    CHECK(about(found, "persistence").seen == "AOF, appendfsync always");
    CHECK(about(found, "clock").seen.find("round trip") != std::string::npos);
  }
  CHECK(server.command({"DBSIZE"}).integer == 0);  // it leaves nothing behind
}

TEST_CASE("doctor: what makes a server unfit") {
  RedisServer server{{.config = {"maxmemory-policy allkeys-lru"}}};
  auto found = doctor(server.url());
  CHECK(about(found, "maxmemory-policy").level == Level::warning);  // no limit yet
  CHECK(about(found, "persistence").level == Level::warning);
  CHECK(about(found, "uptime").level == Level::warning);
  CHECK(about(found, "restart_grace").level == Level::good);  // which covers them
  server.command({"CONFIG", "SET", "maxmemory", "100mb"});
  server.command({"CONFIG", "SET", "appendonly", "yes"});
  found = doctor(server.url() + "?restart_grace=0&replicas=1");
  CHECK(about(found, "maxmemory-policy").level == Level::bad);
  CHECK(about(found, "persistence").seen == "AOF, appendfsync everysec");
  CHECK(about(found, "restart_grace").level == Level::warning);

  RedisServer replica{{.config = {fmt::format("replicaof 127.0.0.1 {}", server.port()),
                                  "repl-diskless-sync-delay 0"}}};
  REQUIRE(replicates(server));
  found = doctor(server.url());
  CHECK(about(found, "replicas").seen == "1");
  CHECK(about(found, "replicas").level == Level::warning);  // replicas=0
  CHECK(about(found, "min-replicas-to-write").level == Level::warning);
  server.command({"CONFIG", "SET", "min-replicas-to-write", "1"});
  found = doctor(server.url() + "?replicas=1");
  CHECK(about(found, "replicas").level == Level::good);
  CHECK(about(found, "min-replicas-to-write").level == Level::good);
  found = doctor(server.url() + "?replicas=2");
  CHECK(about(found, "replicas").level == Level::bad);
}

TEST_CASE("doctor: a server that cannot write") {
  RedisServer server{{.config = {"maxmemory-policy noeviction"}}};
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  const auto found = doctor(server.url());
  CHECK(about(found, "writing").level == Level::bad);
  CHECK(about(found, "writing").seen.find("maxmemory") != std::string::npos);
}

TEST_CASE("doctor: no server") {
  const auto found =
      open_redis(fmt::format("redis://127.0.0.1:{}", free_port()), quick(200ms, 200ms))->doctor();
  REQUIRE_FALSE(found);
  CHECK(found.error().code == Errc::unavailable);
}
