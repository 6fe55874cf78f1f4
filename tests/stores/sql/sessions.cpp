// SPDX-License-Identifier: Apache-2.0
// Recipe lease: sessions that end, waiters that are gone or stopped, servers that go away.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <csignal>
#include "stores/sql/scene.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("the holder's session ends: no grant before the lease does, and the holder keeps it") {
  Db db{server()};
  const auto a = open_recipe(db.url(), patient()), b = open_recipe(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  kill_sessions(db);
  for (const Deadline until = Clock::now() + 1s; Clock::now() < until;) {
    const auto p = w->poll(50ms);
    if (p) CHECK_FALSE(std::holds_alternative<Granted>(*p));
  }
  const Renewal answer = renewed(*a, lease, 2s);  // to see its end
  REQUIRE(kept(answer));
  const Deadline end = std::get<Kept>(answer).lease.deadline;
  const Lease next = granted_within(*w, 60s);
  CHECK(Clock::now() >= end);
  CHECK(next.token > lease.token);
  CHECK(lost(renewed(*a, lease, 60s)));
}

TEST_CASE("waiters' sessions end: they return and keep their places") {
  Db db{server()};
  const auto a = open_recipe(db.url(), patient()), b = open_recipe(db.url(), patient()),
             c = open_recipe(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  auto first = waiter(*b, request(key("k"), 60s)), second = waiter(*c, request(key("k"), 60s));
  REQUIRE(waits(*first, 20ms));
  REQUIRE(waits(*second, 20ms));
  kill_sessions(db);
  for (int i = 0; i < 3; ++i) (void)first->poll(20ms), (void)second->poll(20ms);
  release_or_fail(*a, lease);
  const Lease one = granted_within(*first, 60s);
  CHECK(waits(*second, 50ms));
  release_or_fail(*b, one);
  CHECK(granted_within(*second, 60s).token > one.token);
}

TEST_CASE("a waiter that was killed is passed at once, also by who does not wait") {
  Db db{server()};
  const auto a = open_recipe(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto b = open_recipe(db.url(), patient());
    auto w = *b->enqueue(request(key("k"), 60s));
    for (;;) (void)w->poll(60s);
  }
  REQUIRE(becomes([&] { return one_sleeps(db); }));
  const auto kill = [&] {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  };
  if (GENERATE(false, true)) {
    kill();
    // It is dead when its session is.
    REQUIRE(becomes([&] { return !one_sleeps(db); }));
    release_or_fail(*a, lease);
    Request impatient = request(key("k"), 60s);
    impatient.wait = false;
    take_all(*open_recipe(db.url(), patient()), impatient);
  } else {
    const auto c = open_recipe(db.url(), patient());
    auto w = waiter(*c, request(key("k"), 60s));
    REQUIRE(waits(*w, 50ms));
    kill();
    release_or_fail(*a, lease);
    granted_within(*w, 60s);
    CHECK(db.value("SELECT count(*) FROM dlock_wait") == "0");
  }
}

TEST_CASE("a waiter that is stopped, its session lives: the next one passes it; it queues again") {
  Db db{server()};
  const auto a = open_recipe(db.url(), patient()), b = open_recipe(db.url(), patient()),
             c = open_recipe(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  auto stopped = waiter(*b, request(key("k"), 60s)), second = waiter(*c, request(key("k"), 60s));
  REQUIRE(waits(*stopped, 20ms));
  REQUIRE(waits(*second, 20ms));
  const Deadline held = Clock::now();
  release_or_fail(*a, lease);
  const Lease got = granted_within(*second, 60s);
  CHECK(Clock::now() - held > 2900ms);  // the first one's claim time passed
  CHECK(waits(*stopped, 20ms));
  release_or_fail(*c, got);
  CHECK(granted_within(*stopped, 60s).token > got.token);
}

TEST_CASE("a server that dies and restarts has kept the lock") {
  Server own{{.on_disk = true}};
  Db db{own};
  const auto a = open_recipe(db.url(), quick(2s, 5s)), b = open_recipe(db.url(), quick(2s, 5s));
  const Lease lease = acquire_or_fail(*a, request(key("k"), 600s));
  auto w = waiter(*b, request(key("k"), 600s));
  REQUIRE(waits(*w, 50ms));
  own.kill();
  const auto while_dead = a->renew(lease, 600s);
  REQUIRE_FALSE(while_dead);
  CHECK(retryable(while_dead.error().code));
  CHECK_FALSE(w->poll(50ms).has_value());
  own.start();
  const Renewal answer = renewed(*a, lease, 600s);
  REQUIRE(kept(answer));
  CHECK(std::get<Kept>(answer).lease.token == lease.token);
  for (int i = 0; i < 3; ++i) {
    const auto p = w->poll(100ms);
    if (p) CHECK_FALSE(std::holds_alternative<Granted>(*p));
  }
  release_or_fail(*a, lease);
  CHECK(granted_within(*w, 60s).token > lease.token);
}

TEST_CASE("cut, silent and refused connections") {
  Db db{server()};
  Proxy proxy{server().port()};
  const auto a = open_recipe(through(proxy, db), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 100s));
  proxy.cut();
  CHECK(kept(renewed(*a, lease, 100s)));
  proxy.stall(Proxy::to_client, true);
  CHECK(ends_within(4s, [&] { CHECK_FALSE(a->renew(lease, 100s)); }));
  proxy.stall(Proxy::to_client, false);
  CHECK(kept(renewed(*a, lease, 100s)));
  proxy.refuse(true);
  proxy.cut();
  const auto refused = a->renew(lease, 100s);
  REQUIRE_FALSE(refused);
  CHECK(retryable(refused.error().code));
  proxy.refuse(false);
  proxy.blackhole(true);
  const auto fresh = open_recipe(through(proxy, db), quick(300ms, 300ms));
  CHECK(ends_within(3s, [&] {
    const auto p = waiter(*fresh, request(key("other")))->poll(0us);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::unavailable);
  }));
  proxy.blackhole(false);
  CHECK(kept(renewed(*a, lease, 100s)));
}
