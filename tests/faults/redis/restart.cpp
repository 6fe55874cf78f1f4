// SPDX-License-Identifier: Apache-2.0
// A server that may have lost its data: what it may grant, and for how long. URLs have no items
// here unless a test says why.
#include <poll.h>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

const std::vector<std::string> on_disk{"appendonly yes", "appendfsync always"};

Error refusal(Backend& b, const Request& r) {
  const auto p = (*b.enqueue(r))->poll(0s);
  REQUIRE_FALSE(p);
  return p.error();
}
bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

bool readable(int fd, int ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, ms) > 0;
}

Request impatient(Request r) {
  r.wait = false;
  return r;
}

}  // namespace

TEST_CASE(
    "restart: a lease above the grace is refused unless every grant is on disk, and both are "
    "named") {
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    RedisServer server{{.uptime = an_hour}};
    auto backend = open_redis(server.url(), {}, recipe);
    const Error e = refusal(*backend, request(key("long"), 5min));
    INFO(e.message);
    CHECK(e.code == Errc::usage);
    CHECK(has(e.message, "--ttl 5m"));
    CHECK(has(e.message, "restart_grace=1m"));
    CHECK(has(e.message, "appendonly is no"));
    CHECK(server.command({"DBSIZE"}).integer == 0);
    acquire_or_fail(*open_redis(server.url(), {}, recipe), request(key("short"), 60s));
    // The operator's word (restart_grace=0), and a grace that is long enough.
    acquire_or_fail(*open_redis(server.url() + "?restart_grace=0", {}, recipe),
                    request(key("word"), 5min));
    acquire_or_fail(*open_redis(server.url() + "?restart_grace=5m", {}, recipe),
                    request(key("covered"), 5min));
    RedisServer durable{{.config = on_disk, .uptime = an_hour}};
    acquire_or_fail(*open_redis(durable.url(), {}, recipe), request(key("long"), 5min));
  }
}

TEST_CASE("restart: the lock-delay counts as well") {
  RedisServer server{{.uptime = an_hour}};
  auto backend = open_redis(server.url());
  Request r = request(key("delayed"), 50s);
  r.lock_delay = 20s;
  const Error e = refusal(*backend, r);
  INFO(e.message);
  CHECK(e.code == Errc::usage);
  CHECK(has(e.message, "--lock-delay 20s"));
  CHECK(has(e.message, "1m10s"));
  r.lock_delay = 10s;
  const Lease held = acquire_or_fail(*backend, r);
  // Also a lease that was taken elsewhere, with the lock-delay in its record.
  auto other = open_redis(server.url());
  const auto renewal = other->renew(held, 55s);
  REQUIRE_FALSE(renewal);
  CHECK(renewal.error().code == Errc::usage);
  CHECK(has(renewal.error().message, "--lock-delay 10s"));
  CHECK(kept(other->renew(held, 50s)));
  CHECK(kept(backend->renew(held, 55s)));  // the holder's own
}

TEST_CASE(
    "restart: a foreign lease is not extended beyond the grace; the holder's own renewals go on") {
  for (const char* recipe : {"fair", "set"}) {
    CAPTURE(recipe);
    RedisServer server{{.config = on_disk, .uptime = an_hour}};
    const Key k = key("handle");
    auto holder = open_redis(server.url(), {}, recipe);
    const Lease held = acquire_or_fail(*holder, request(k, 5min));
    CHECK(kept(open_redis(server.url(), {}, recipe)->renew(held, 5min)));
    CHECK(holder->warnings().empty());
    // From now on the server may lose writes. An open connection keeps the earlier answer, so a new
    // one is made.
    server.command({"CONFIG", "SET", "appendfsync", "everysec"});
    auto other = open_redis(server.url(), {}, recipe);
    const auto renewal = other->renew(held, 5min);
    REQUIRE_FALSE(renewal);
    CHECK(renewal.error().code == Errc::usage);
    CHECK(has(renewal.error().message, "appendfsync is everysec"));
    CHECK(kept(other->renew(held, 60s)));
    server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    for (int i = 0; i < 2; ++i) CHECK(kept(holder->renew(held, 5min)));
    const auto told = holder->warnings();
    REQUIRE(told.size() == 1);
    CHECK(has(told[0], "appendfsync is everysec"));
    CHECK(holder->warnings().empty());
    CHECK(std::holds_alternative<Kept>(*holder->detach(held, 5min)));
  }
}

TEST_CASE("restart: what proves that a run of the server keeps its grants") {
  const auto why_not = [](RedisServer& server) {
    Request r = request(key("proof"), 5min);
    return refusal(*open_redis(server.url()), r);
  };
  RedisServer server{{.config = on_disk, .uptime = an_hour}};
  for (const auto& [name, wrong, right] : {std::tuple{"appendfsync", "no", "always"},
                                           {"no-appendfsync-on-rewrite", "yes", "no"},
                                           {"appendonly", "no", "yes"}}) {
    CAPTURE(name);
    server.command({"CONFIG", "SET", name, wrong});
    const Error e = why_not(server);
    INFO(e.message);
    CHECK(e.code == Errc::usage);
    CHECK(has(e.message, name));
    server.command({"CONFIG", "SET", name, right});
  }
  while (info_field(server, "persistence", "aof_rewrite_in_progress") != "0") ::usleep(2000);
  acquire_or_fail(*open_redis(server.url()), request(key("proof"), 5min));

  SECTION("not while the append-only file is being rewritten for the first time") {
    RedisServer fresh{{.config = {"appendfsync always"}, .uptime = an_hour}};
    for (int i = 0; i < 200; ++i) fresh.command({"SET", fmt::format("k{}", i), "x"});
    fresh.command({"CONFIG", "SET", "rdb-key-save-delay", "100000"});  // 0.1 s for each key
    fresh.command({"CONFIG", "SET", "appendonly", "yes"});
    REQUIRE(info_field(fresh, "persistence", "aof_enabled") == "1");
    const Error e = why_not(fresh);
    INFO(e.message);
    CHECK(has(e.message, "rewritten"));
    CHECK(e.code == Errc::usage);
  }
  SECTION("a grant waits for the end of a later rewrite") {
    for (int i = 0; i < 200; ++i) server.command({"SET", fmt::format("k{}", i), "x"});
    server.command({"CONFIG", "SET", "rdb-key-save-delay", "20000"});
    server.command({"BGREWRITEAOF"});
    const Error e = why_not(server);
    INFO(e.message);
    CHECK(e.code == Errc::unavailable);
    server.command({"CONFIG", "SET", "rdb-key-save-delay", "0"});
    granted_within(**open_redis(server.url())->enqueue(request(key("later"), 5min)), 20s);
  }
}

TEST_CASE("restart: the grace applies to every server, whatever it says of its durability now") {
  RedisServer server{{.config = on_disk, .uptime = an_hour}};
  const Key k = key("exempt");
  auto holder = open_redis(server.url());
  const Lease held = acquire_or_fail(*holder, request(k));
  server.restart();
  CHECK(kept(holder->renew(held, 10s)));
  auto other = open_redis(server.url());
  const auto p = (*other->enqueue(request(key("free"))))->poll(0s);
  REQUIRE((p && std::holds_alternative<Waiting>(*p)));
  CHECK(other->grants_nothing());
  CHECK(has(std::get<Waiting>(*p).why, "grants resume in"));
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    const Error e = refusal(*open_redis(server.url(), {}, recipe), impatient(request(key("free"))));
    CHECK(e.code == Errc::unavailable);  // not busy: whether it is held is unknown
    CHECK(has(e.message, "grants resume in"));
  }
}

TEST_CASE("restart: a server that does not report its uptime has just started") {
  RedisServer server{{.uptime = an_hour}};
  acquire_or_fail(*open_redis(server.url()), request(key("k")));
  server.step_clock(-2 * an_hour);  // its start is in the future, so it reports a negative uptime
  auto backend = open_redis(server.url());
  const auto p = (*backend->enqueue(request(key("other"))))->poll(0s);
  REQUIRE((p && std::holds_alternative<Waiting>(*p)));
  CHECK(backend->grants_nothing());
}

TEST_CASE("restart: a holder is told when its server goes away, and that the record is gone") {
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    RedisServer server{{.uptime = an_hour}};
    auto backend = open_redis(server.url(), quick(), recipe);
    const Lease held = acquire_or_fail(*backend, request(key("watched"), 60s));
    const int outage = backend->outage_fd();
    REQUIRE(outage >= 0);
    CHECK_FALSE(readable(outage, 0));
    CHECK(kept(backend->renew(held, 60s)));
    CHECK_FALSE(readable(outage, 0));
    server.kill();
    CHECK(readable(outage, 5000));
    CHECK_FALSE(backend->renew(held, 60s));
    // the outage was reported; the next renewals come soon anyway
    CHECK_FALSE(readable(outage, 0));
    server.start();
    CHECK(lost(backend->renew(held, 60s)));
    CHECK(backend->outage_fd() == outage);
  }
}

TEST_CASE("eviction: a server that may delete locks gives one warning, other servers none") {
  RedisServer server{{.config = {"maxmemory-policy volatile-lru"}, .uptime = an_hour}};
  auto fine = open_redis(server.url());
  acquire_or_fail(*fine, request(key("unlimited")));
  CHECK(fine->warnings().empty());
  server.command({"CONFIG", "SET", "maxmemory", "1gb"});
  auto backend = open_redis(server.url());
  const Lease held = acquire_or_fail(*backend, request(key("k")));
  const auto told = backend->warnings();
  REQUIRE(told.size() == 1);
  CHECK(has(told[0], "volatile-lru"));
  CHECK(has(told[0], "noeviction"));
  server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  CHECK(kept(backend->renew(held, 10s)));
  CHECK(backend->warnings().empty());
}
