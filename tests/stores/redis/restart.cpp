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
    "restart: a lease above the grace is refused before the server is asked, both are named") {
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    RedisServer server{{.config = on_disk, .uptime = an_hour}};  // no matter how durable it is
    const auto refused = open_redis(server.url(), {}, recipe)->enqueue(request(key("long"), 5min));
    REQUIRE_FALSE(refused);
    const Error& e = refused.error();
    INFO(e.message);
    CHECK(e.code == Errc::usage);
    CHECK(has(e.message, "--ttl 5m"));
    CHECK(has(e.message, "restart_grace=30s"));
    CHECK(has(e.message, "put restart_grace=5m into the URL of all clients"));
    acquire_or_fail(*open_redis(server.url(), {}, recipe), request(key("short"), 30s));
    // The operator's word (restart_grace=0), and a grace that is long enough.
    acquire_or_fail(*open_redis(server.url() + "?restart_grace=0", {}, recipe),
                    request(key("word"), 5min));
    acquire_or_fail(*open_redis(server.url() + "?restart_grace=5m", {}, recipe),
                    request(key("covered"), 5min));
  }
}

TEST_CASE("restart: the lock-delay counts as well") {
  RedisServer server{{.uptime = an_hour}};
  auto backend = open_redis(server.url());
  Request r = request(key("delayed"), 20s);
  r.lock_delay = 11s;
  const auto refused = backend->enqueue(r);
  REQUIRE_FALSE(refused);
  INFO(refused.error().message);
  CHECK(refused.error().code == Errc::usage);
  CHECK(has(refused.error().message, "--lock-delay 11s"));
  CHECK(has(refused.error().message, "31s"));
  r.lock_delay = 10s;
  const Lease held = acquire_or_fail(*backend, r);
  // Also a lease that was taken elsewhere, with the lock-delay in its record.
  auto other = open_redis(server.url());
  const auto renewal = other->renew(held, 25s);
  REQUIRE_FALSE(renewal);
  CHECK(renewal.error().code == Errc::usage);
  CHECK(has(renewal.error().message, "--lock-delay 10s"));
  CHECK(kept(other->renew(held, 20s)));
  CHECK(kept(backend->renew(held, 25s)));  // the holder's own
}

TEST_CASE("restart: a lease taken elsewhere is not extended beyond the grace") {
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    RedisServer server{{.config = on_disk, .uptime = an_hour}};
    // Its holder has another URL.
    auto holder = open_redis(server.url() + "?restart_grace=5m", {}, recipe);
    const Lease held = acquire_or_fail(*holder, request(key("handle"), 5min));
    auto other = open_redis(server.url(), {}, recipe);
    const auto renewal = other->renew(held, 5min);
    REQUIRE_FALSE(renewal);
    CHECK(renewal.error().code == Errc::usage);
    CHECK(has(renewal.error().message, "--ttl 5m is longer than restart_grace=30s"));
    CHECK(kept(holder->renew(held, 5min)));
    CHECK(kept(other->renew(held, 30s)));
    CHECK(holder->health().warnings.empty());
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
  CHECK(other->health().in_grace_period);
  CHECK(has(std::get<Waiting>(*p).why, "grants resume in"));
  CHECK(has(std::get<Waiting>(*p).why,
            "?restart_grace=0 if this server never forgets (dlock-redis(7))"));
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    const Error e = refusal(*open_redis(server.url(), {}, recipe), impatient(request(key("free"))));
    CHECK(e.code == Errc::unavailable);  // not busy: whether it is held is unknown
    CHECK(has(e.message, "grants resume in"));
    CHECK(has(e.message, "?restart_grace=0 if this server never forgets (dlock-redis(7))"));
  }
}

TEST_CASE("restart: a server that does not report its uptime has just started") {
  RedisServer server{{.uptime = an_hour}};
  acquire_or_fail(*open_redis(server.url()), request(key("k")));
  server.step_clock(-2 * an_hour);  // its start is in the future, so it reports a negative uptime
  auto backend = open_redis(server.url());
  const auto p = (*backend->enqueue(request(key("other"))))->poll(0s);
  REQUIRE((p && std::holds_alternative<Waiting>(*p)));
  CHECK(backend->health().in_grace_period);
}

TEST_CASE("restart: a holder is told when its server goes away, and that the record is gone") {
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    RedisServer server{{.uptime = an_hour}};
    auto backend = open_redis(server.url(), quick(), recipe);
    const Lease held = acquire_or_fail(*backend, request(key("watched"), 30s));
    const int outage = backend->health().outage_fd;
    REQUIRE(outage >= 0);
    // A busy machine's answer may come too late, and its connection is dropped then.
    CHECK(becomes([&] { return kept(backend->renew(held, 30s)) && !readable(outage, 0); }));
    server.kill();
    CHECK(readable(outage, 60'000));
    CHECK_FALSE(backend->renew(held, 30s));
    // the outage was reported; the next renewals come soon anyway
    CHECK_FALSE(readable(outage, 0));
    server.start();
    CHECK(lost(renewed(*backend, held, 30s)));
    CHECK(backend->health().outage_fd == outage);
  }
}

TEST_CASE("eviction: a server that may delete locks gives one warning, other servers none") {
  RedisServer server{{.config = {"maxmemory-policy volatile-lru"}, .uptime = an_hour}};
  auto fine = open_redis(server.url());
  acquire_or_fail(*fine, request(key("unlimited")));
  CHECK(fine->health().warnings.empty());
  server.command({"CONFIG", "SET", "maxmemory", "1gb"});
  auto backend = open_redis(server.url());
  const Lease held = acquire_or_fail(*backend, request(key("k")));
  const auto told = backend->health().warnings;
  REQUIRE(told.size() == 1);
  CHECK(has(told[0], "volatile-lru"));
  CHECK(has(told[0], "noeviction"));
  server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  CHECK(kept(backend->renew(held, 10s)));
  CHECK(backend->health().warnings == told);  // once
}
