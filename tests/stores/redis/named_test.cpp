// SPDX-License-Identifier: Apache-2.0
// The recipes that exclude with other programs: the other program's part is done here with its own
// commands. Every weakness that the recipes document is shown.
#include <fmt/format.h>
#include <unistd.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include "redis_scripts/named_scripts.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"
#include "support/redis_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

const Key k = *Key::parse("app:nightly");
constexpr const char* fence = "dlock:fence:{app:nightly}app:nightly";
constexpr const char* all[] = {"set", "setnx-expire", "getset"};

std::unique_ptr<Backend> open(RedisServer& server, std::string_view recipe,
                              const std::string& items = "") {
  return open_redis(server.url() + "?restart_grace=0" + items, {}, recipe);
}
Request once(Duration ttl = 10s) {
  Request r = request(k, ttl);
  r.wait = false;
  return r;
}
bool is_busy(const Result<Progress>& p) { return p && std::holds_alternative<Busy>(*p); }
bool is_granted(const Result<Progress>& p) { return p && std::holds_alternative<Granted>(*p); }
Result<Progress> poll_once(Backend& b, Duration ttl = 10s) {
  return (*b.enqueue(once(ttl)))->poll(0s);
}
std::int64_t unix_seconds(RedisServer& server) { return *server.command({"TIME"}).number_at(0); }

}  // namespace

TEST_CASE("the lock is a string under its own name, beside it only the fence") {
  for (const char* recipe : all) {
    CAPTURE(recipe);
    RedisServer server;
    auto backend = open(server, recipe);
    const Lease lease = acquire_or_fail(*backend, request(k));
    CHECK(server.command({"TYPE", "app:nightly"}).text == "string");
    CHECK(server.command({"DBSIZE"}).integer == 2);
    const auto ttl = server.command({"PTTL", "app:nightly"}).integer;
    if (std::string_view{recipe} == "getset") CHECK(ttl == -1);
    else CHECK((ttl > 20'000 && ttl <= 30'000));
    CHECK(backend->release(lease) == Released::yes);
    CHECK(server.command({"EXISTS", "app:nightly"}).integer == 0);
    CHECK(server.command({"TTL", fence}).integer > 89 * 86400);
    CHECK(server.command({"DBSIZE"}).integer == 1);
  }
}

TEST_CASE("set: clients of SET NX PX and dlock exclude each other") {
  RedisServer server;
  auto backend = open(server, "set");
  const Lease lease = acquire_or_fail(*backend, request(k));
  CHECK(server.command({"GET", "app:nightly"}).text == lease.owner.hex());
  CHECK(
      server.command({"SET", "app:nightly", "stranger", "NX", "PX", "5000"}).is(Reply::Type::nil));
  CHECK(backend->release(lease) == Released::yes);
  CHECK(server.command({"SET", "app:nightly", "0123456789abcdef0123", "NX", "PX", "60000"}).text ==
        "OK");
  const auto p = poll_once(*backend);
  REQUIRE(is_busy(p));
  CHECK(std::get<Busy>(*p).why.find("another program: type string, ends in") != std::string::npos);
  CHECK(std::get<Busy>(*p).holder->id == "01234567");
  CHECK(backend->release(lease) == Released::was_not_held);  // the foreign lock is left alone
  CHECK(ends_within(900ms, [&] {                             // when it expires, not one poll later
    server.command({"PEXPIRE", "app:nightly", "700"});
    CHECK(granted_within(**backend->enqueue(request(k))).token > lease.token);
  }));
}

TEST_CASE("set: foreign holders of every kind are shown and respected") {
  RedisServer server;
  auto backend = open(server, "set");
  const auto note = [&] {
    const auto v = backend->inspect(k);
    REQUIRE((v && *v && (*v)->holders.size() == 1 && (*v)->notes.size() == 1));
    CHECK_FALSE((*v)->waiters_known);
    return (*v)->notes[0];
  };
  server.command({"SET", "app:nightly", "x"});
  CHECK(note() == "held by another program: type string, no expiry");
  CHECK(is_busy(poll_once(*backend)));
  CHECK(backend->force_release(k, FencingToken{1}) == Released::was_not_held);
  CHECK(backend->force_release(k, std::nullopt) == Released::yes);
  server.command({"HSET", "app:nightly", "8743c9c0:17", "1"});
  server.command({"PEXPIRE", "app:nightly", "30000"});
  CHECK(note().find("type hash, as Redisson's locks are, ends in ") != std::string::npos);
  CHECK(is_busy(poll_once(*backend)));
  CHECK(backend->release({k, Owner::random()}) == Released::was_not_held);
  CHECK(std::holds_alternative<Lost>(*backend->renew({k, Owner::random()}, 10s)));
  CHECK(server.command({"TYPE", "app:nightly"}).text == "hash");
}

TEST_CASE("set: a foreign SET over the lock: lost, and dlock does not delete it") {
  RedisServer server;
  auto backend = open(server, "set");
  const Lease lease = acquire_or_fail(*backend, request(k));
  server.command({"SET", "app:nightly", "usurper"});
  CHECK(backend->check(k, lease.token) == Validity::stale);
  CHECK(std::holds_alternative<Lost>(*backend->renew(lease, 10s)));
  CHECK(backend->release(lease) == Released::was_not_held);
  CHECK(server.command({"GET", "app:nightly"}).text == "usurper");
}

TEST_CASE("set: without its record a lock is still held; and the token still rises") {
  RedisServer server;
  auto backend = open(server, "set");
  const Lease lease = acquire_or_fail(*backend, request(k));
  server.command({"DEL", fence});
  const auto renewal = backend->renew(lease, 10s);
  REQUIRE(std::holds_alternative<Kept>(*renewal));
  CHECK(std::get<Kept>(*renewal).lease.token > lease.token);
  CHECK(backend->release(lease) == Released::yes);
}

TEST_CASE("setnx-expire, the weakness: a foreign lock without expiry stays for ever") {
  RedisServer server;
  server.command({"SETNX", "app:nightly", "some old script"});  // and it died before EXPIRE
  auto backend = open(server, "setnx-expire");
  auto waiter = *backend->enqueue(request(k));
  const auto p = waiter->poll(1500ms);
  REQUIRE(std::holds_alternative<Waiting>(*p));
  CHECK(std::get<Waiting>(*p).why.find("no expiry") != std::string::npos);
  CHECK(server.command({"PTTL", "app:nightly"}).integer == -1);  // dlock changed nothing
  SECTION("until an operator removes it") {
    CHECK(open(server, "setnx-expire")->force_release(k, std::nullopt) == Released::yes);
    granted_within(*waiter);
  }
  SECTION("or ?stale_after= has passed since this waiter first saw it, unchanged") {
    auto bold = open(server, "setnx-expire", "&stale_after=3s");
    auto hopeful = *bold->enqueue(request(k));
    const auto began = Clock::now();
    (void)answer_of(*hopeful, 400ms);
    server.command({"SET", "app:nightly", "some other script"});
    granted_within(*hopeful);
    CHECK(Clock::now() - began >= 3400ms);
  }
}

TEST_CASE(
    "setnx-expire: a dlock that died between the two commands blocks the key for at most its ttl") {
  RedisServer server;
  const std::string dead = "dlock1:" + Owner::random().hex() + ":800";
  auto backend = open(server, "setnx-expire");
  CHECK(ends_within(1500ms, [&] {
    server.command({"DEL", "app:nightly"});
    server.command({"SETNX", "app:nightly", dead});
    auto waiter = *backend->enqueue(request(k));
    const auto began = Clock::now();
    granted_within(*waiter);
    CHECK(Clock::now() - began >= 800ms);
  }));
}

TEST_CASE("setnx-expire: a late second command does not end the lock of another") {
  RedisServer server;
  Proxy proxy{server.port()};
  auto late = open_redis(fmt::format("redis://127.0.0.1:{}?restart_grace=0", proxy.port()),
                         patient(), "setnx-expire");
  // the connection is open, the script is known
  release_or_fail(*late, acquire_or_fail(*late, request(k)));
  auto punctual = open(server, "setnx-expire");
  auto waiter = *late->enqueue(once(2s));
  proxy.lose_reply(std::string{redis::scripts::named_grant.sha});
  proxy.refuse(true);
  std::optional<Lease> lease;
  std::thread meanwhile{[&] {
    if (proxy.lost_one()) {
      server.command({"DEL", "app:nightly"});  // as if the late one's lock had expired
      lease = acquire_or_fail(*punctual, request(k, 60s));
    }
    proxy.refuse(false);  // now the late one tries again
  }};
  const auto p = waiter->poll(0s);
  meanwhile.join();
  REQUIRE(lease);
  CHECK(is_busy(p));
  CHECK(server.command({"PTTL", "app:nightly"}).integer > 50'000);
  CHECK(punctual->check(k, lease->token) == Validity::valid);
}

TEST_CASE("setnx-expire: dlock and scripts of SETNX and EXPIRE exclude each other") {
  RedisServer server;
  auto backend = open(server, "setnx-expire");
  const Lease lease = acquire_or_fail(*backend, request(k));
  CHECK(server.command({"SETNX", "app:nightly", "script"}).integer == 0);
  CHECK(backend->release(lease) == Released::yes);
  CHECK(server.command({"SETNX", "app:nightly", "script"}).integer == 1);
  CHECK(is_busy(poll_once(*backend)));
  server.command({"EXPIRE", "app:nightly", "1"});
  granted_within(**backend->enqueue(request(k)));
}

TEST_CASE("setnx-expire, the weakness of such scripts: their DEL checks no owner") {
  RedisServer server;
  auto backend = open(server, "setnx-expire");
  const Lease lease = acquire_or_fail(*backend, request(k));
  server.command({"DEL", "app:nightly"});  // by a script whose own lock had expired
  CHECK(std::holds_alternative<Lost>(*backend->renew(lease, 10s)));
}

TEST_CASE(
    "getset: the value is the lock's end; dlock and clients of the algorithm exclude each other") {
  RedisServer server;
  auto backend = open(server, "getset");
  const auto before = unix_seconds(server);
  const Lease lease = acquire_or_fail(*backend, request(k, 10s));
  const auto now = unix_seconds(server);
  const auto ends = std::stoll(server.command({"GET", "app:nightly"}).text);
  CHECK((ends >= before + 10 && ends <= now + 13));
  CHECK(server.command({"SETNX", "app:nightly", "1"}).integer == 0);
  CHECK(backend->release(lease) == Released::yes);
  server.command({"SETNX", "app:nightly", std::to_string(now + 100)});
  CHECK(is_busy(poll_once(*backend)));
  server.command({"SET", "app:nightly", fmt::format("{}.5", now - 5)});  // its holder died
  const auto p = poll_once(*backend);
  REQUIRE(is_granted(p));
  CHECK(std::get<Granted>(*p).lease.token > lease.token);
  server.command({"SET", "app:nightly", "no number"});
  CHECK(is_busy(poll_once(*backend)));
}

TEST_CASE("getset: a waiter takes over when the time has passed, with milliseconds as well") {
  RedisServer server;
  auto dead = open(server, "getset", "&unit=ms"), next = open(server, "getset", "&unit=ms");
  std::optional<Lease> lost;
  std::optional<Lease> taken;
  CHECK(ends_within(1200ms, [&] {
    if (taken) release_or_fail(*next, *taken);
    const auto began = Clock::now();
    lost = acquire_or_fail(*dead, request(k, 700ms));
    taken = granted_within(**next->enqueue(request(k)));
    CHECK(Clock::now() - began >= 700ms);
  }));
  CHECK(std::holds_alternative<Lost>(*dead->renew(*lost, 10s)));
  CHECK(dead->release(*lost) == Released::was_not_held);
  CHECK(next->check(k, taken->token) == Validity::valid);
}

TEST_CASE("getset, the weakness: a client with a fast clock takes over from a valid holder") {
  RedisServer server;
  auto backend = open(server, "getset");
  const Lease lease = acquire_or_fail(*backend, request(k, 10s));
  const auto theirs_now = unix_seconds(server) + 60;  // a clock one minute fast
  const auto seen = server.command({"GET", "app:nightly"}).text;
  REQUIRE(std::stoll(seen) < theirs_now);
  CHECK(server.command({"GETSET", "app:nightly", std::to_string(theirs_now + 10)}).text ==
        seen);  // by its rules it holds the lock now
  CHECK(backend->check(k, lease.token) == Validity::stale);
  CHECK(std::holds_alternative<Lost>(*backend->renew(lease, 10s)));
}

TEST_CASE(
    "getset, the weakness: a foreign loser overwrites the time, and the winner considers its lock "
    "lost") {
  RedisServer server;
  auto backend = open(server, "getset");
  const auto now = unix_seconds(server);
  const std::string old = std::to_string(now - 5);
  server.command({"SET", "app:nightly", old});
  // the other one sees the old time, too,
  CHECK(server.command({"GET", "app:nightly"}).text == old);
  const Lease lease = acquire_or_fail(*backend, request(k));
  const auto theirs = std::to_string(now + 40);
  // so by its rules it has lost, and leaves this value
  CHECK(server.command({"GETSET", "app:nightly", theirs}).text != old);
  // though no other client holds it
  CHECK(std::holds_alternative<Lost>(*backend->renew(lease, 10s)));
  CHECK(backend->release(lease) == Released::was_not_held);
  CHECK(is_busy(poll_once(*backend)));  // until that time has passed
}

TEST_CASE("getset: after a crash one waiter takes over at once, and its time is not overwritten") {
  RedisServer server;
  for (int round = 0; round < 5; ++round) {
    auto dead = open(server, "getset", "&unit=ms");
    const auto began = Clock::now();
    const Lease lost = acquire_or_fail(*dead, request(k, 1s));
    constexpr int n = 6;
    std::vector<std::unique_ptr<Backend>> backends;
    for (int i = 0; i < n; ++i) backends.push_back(open(server, "getset", "&unit=ms"));
    std::mutex mutex;
    std::vector<Lease> granted;
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (auto& b : backends)
      threads.emplace_back([&] {
        // one ttl is longer than this whole test
        const auto w = *b->enqueue(request(k, 600s));
        Result<Progress> p = Progress{Waiting{}};
        while (!over && !is_granted(p)) p = w->poll(100ms);
        if (!is_granted(p)) p = w->poll(1s);
        if (!is_granted(p)) return;
        over = true;
        const std::lock_guard lock{mutex};
        granted.push_back(std::get<Granted>(*p).lease);
      });
    for (auto& t : threads) t.join();
    REQUIRE(granted.size() == 1);
    CHECK(Clock::now() - began >= 999ms);
    CHECK(std::holds_alternative<Kept>(*backends[0]->renew(granted[0], 600s)));
    CHECK(backends[0]->release(granted[0]) == Released::yes);
  }
}

TEST_CASE("getset: a late takeover is judged by the time at which it was sent") {
  RedisServer server;
  Proxy proxy{server.port()};
  Settings settings;
  settings.op_timeout = 1s;
  auto late = open_redis(fmt::format("redis://127.0.0.1:{}?restart_grace=0&unit=ms", proxy.port()),
                         settings, "getset");
  auto punctual = open(server, "getset", "&unit=ms");
  release_or_fail(*late, acquire_or_fail(*late, request(k)));
  server.command({"SET", "app:nightly", "1"});  // its holder died long ago
  proxy.hold("EVALSHA");
  auto waiter = *late->enqueue(request(k, 1500ms));
  CHECK_FALSE(waiter->poll(0s));  // gave up
  REQUIRE(proxy.holds_one());
  const Lease lease = acquire_or_fail(*punctual, request(k, 30s));
  ::usleep(700'000);  // the time that the late request would write has passed
  proxy.let_go();
  REQUIRE(proxy.answered());
  CHECK(std::holds_alternative<Kept>(*punctual->renew(lease, 30s)));
  CHECK(is_busy(poll_once(*open(server, "getset", "&unit=ms"))));
}

TEST_CASE("unsupported requests are refused, and so are items of other recipes") {
  RedisServer server;
  for (const char* recipe : all) {
    auto backend = open(server, recipe);
    Request shared = request(k);
    shared.mode = Mode::shared;
    CHECK(backend->enqueue(shared).error().code == Errc::usage);
    CHECK(list(*backend).error().code == Errc::usage);  // without a prefix
  }
  CHECK_THROWS_WITH(open(server, "set", "&stale_after=1h"), Catch::Contains("setnx-expire"));
  CHECK_THROWS_WITH(open(server, "setnx-expire", "&stale_after=0"), Catch::Contains("above 0"));
  CHECK_THROWS_WITH(open(server, "set", "&unit=ms"), Catch::Contains("getset"));
  CHECK_THROWS_WITH(open(server, "getset", "&unit=us"), Catch::Contains("s or ms"));
}
