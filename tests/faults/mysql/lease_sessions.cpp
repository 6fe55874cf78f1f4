// SPDX-License-Identifier: Apache-2.0
// Recipe lease: faults between client and server, and changes to its tables by others.
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE(
    "the holder's session is killed: no grant before the lease ends, and the holder keeps it") {
  Database db{server()};
  const auto a = open_mysql(db.url(), calm()), b = open_mysql(db.url(), calm());
  const Request r = request(key("k"), 6s);
  const Lease lease = acquire_or_fail(*a, r);
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  kill_sessions(db);
  // The queue head gets the lost name at once, and sees a lease.
  for (const Deadline until = Clock::now() + 1s; Clock::now() < until;) {
    const auto p = w->poll(50ms);
    if (p) CHECK_FALSE(std::holds_alternative<Granted>(*p));
  }
  const auto renewed = a->renew(lease, 6s);
  REQUIRE(kept(renewed));
  const Deadline end = std::get<Kept>(*renewed).lease.deadline;
  const Lease next = granted_within(*w, 30s);
  CHECK(Clock::now() >= end);
  CHECK(next.token > lease.token);
  CHECK(lost(a->renew(lease, 6s)));
}

TEST_CASE("a released lock is granted at once although the holder's name was lost") {
  Database db{server()};
  const auto a = open_mysql(db.url(), calm()), b = open_mysql(db.url(), calm());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  kill_sessions(db);
  (void)w->poll(300ms);
  CHECK(a->release(lease).value() == Released::yes);
  const Deadline released = Clock::now();
  granted_within(*w, 10s);
  CHECK(Clock::now() - released < 4s);  // a lost wake-up shows after 5 s
}

TEST_CASE("a waiter's session is killed: it returns in time and keeps its place") {
  Database db{server()};
  const auto a = open_mysql(db.url(), calm()), b = open_mysql(db.url(), calm()),
             c = open_mysql(db.url(), calm());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto first = waiter(*b, request(key("k"))), second = waiter(*c, request(key("k")));
  REQUIRE(waits(*first, 20ms));
  REQUIRE(waits(*second, 20ms));
  kill_sessions(db);
  for (int i = 0; i < 3; ++i) (void)first->poll(20ms), (void)second->poll(20ms);
  a->release(lease).value();
  const Lease one = granted_within(*first, 10s);
  CHECK(waits(*second, 50ms));
  b->release(one).value();
  CHECK(granted_within(*second, 10s).token > one.token);
}

TEST_CASE("the first waiter is gone: the next one is granted") {
  Database db{server()};
  const auto a = open_mysql(db.url(), calm()), c = open_mysql(db.url(), calm());
  auto b = open_mysql(db.url(), calm());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto first = waiter(*b, request(key("k"))), second = waiter(*c, request(key("k")));
  REQUIRE(waits(*first, 20ms));
  REQUIRE(waits(*second, 20ms));
  first.reset();
  b.reset();
  a->release(lease).value();
  granted_within(*second, 5s);
}

TEST_CASE(
    "the first waiter is stopped, its session lives: the next one passes it, and it queues again") {
  Database db{server()};
  const auto a = open_mysql(db.url(), calm()), b = open_mysql(db.url(), calm()),
             c = open_mysql(db.url(), calm());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto stopped = waiter(*b, request(key("k"))), second = waiter(*c, request(key("k")));
  REQUIRE(waits(*stopped, 20ms));
  REQUIRE(waits(*second, 20ms));
  a->release(lease).value();
  const Deadline released = Clock::now();
  const Lease got = granted_within(*second, 20s);
  CHECK(Clock::now() - released > 2900ms);  // the first one's claim time passed
  CHECK(Clock::now() - released < 12s);
  CHECK(waits(*stopped, 20ms));
  c->release(got).value();
  CHECK(granted_within(*stopped, 10s).token > got.token);
}

TEST_CASE("a server that dies and restarts has kept the lock") {
  MariadbServer own{{.on_disk = true}};
  Database db{own};
  const auto a = open_mysql(db.url(), calm()), b = open_mysql(db.url(), calm());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  own.kill();
  const auto while_dead = a->renew(lease, 30s);
  REQUIRE_FALSE(while_dead);
  CHECK(retryable(while_dead.error().code));
  CHECK_FALSE(w->poll(50ms).has_value());
  own.start();
  CHECK(kept(a->renew(lease, 30s)));
  for (int i = 0; i < 3; ++i) CHECK(waits(*w, 20ms));
  CHECK(a->release(lease).value() == Released::yes);
  CHECK(granted_within(*w, 10s).token > lease.token);
}

TEST_CASE("a stopped server: unknown, within the timeout; and nothing is lost when it continues") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick(300ms)), b = open_mysql(db.url(), quick(300ms));
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  server().freeze();
  const Deadline asked = Clock::now();
  const auto r = a->renew(lease, 30s);
  const auto took = Clock::now() - asked;
  server().thaw();
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::timed_out);
  CHECK(took < 3s);
  CHECK(kept(a->renew(lease, 30s)));
  CHECK(a->release(lease).value() == Released::yes);
  granted_within(*w, 10s);
}
