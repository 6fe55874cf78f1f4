// SPDX-License-Identifier: Apache-2.0
// Recipe lease: faults between client and server, and changes to its tables by others.
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a decision based on an old version is not written") {
  Database db{server()};
  struct Kind {
    const char *recipe, *table, *grant, *statement;
    const char* version = "t.version+1";  // of the grant that it does not know of
    Mode mode = Mode::exclusive;
  };
  for (const auto& [recipe, table, grant, statement, version, mode] :
       // reads and writes at once
       {Kind{"lease", "dlock_lock", "t.state=s.state", "UPDATE dlock_lock SET state="},
        Kind{"lease", "dlock_lock", "t.state=s.state",
             "UPDATE dlock_lock l SET state=", "t.version+1", Mode::shared},
        Kind{"version", "dlock_version", "t.owner=s.owner,t.until=s.until", "UPDATE dlock_version"},
        // a server that lost its last writes
        Kind{"version", "dlock_version", "t.owner=s.owner,t.until=s.until", "UPDATE dlock_version",
             "t.version"}}) {
    CAPTURE(recipe, version, mode);
    const auto a = open_mysql(db.url(), {}, recipe), b = open_mysql(db.url(), {}, recipe);
    const Lease first = acquire_or_fail(*b, request(key("k"), 60s));
    db.sql(fmt::format("CREATE OR REPLACE TABLE saved_{0} AS SELECT * FROM {0}", table));
    b->release(first).value();
    // It reads that the key is free, and its UPDATE waits for this transaction, which grants the
    // key to another.
    db.sql(fmt::format("START TRANSACTION; SELECT * FROM {} FOR UPDATE", table));
    Request asks = request(key("k"), 60s);
    asks.mode = mode;
    auto w = waiter(*a, asks);
    auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
    const auto writing = fmt::format(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE '{}%' AND "
        "ID<>CONNECTION_ID()",
        statement);
    REQUIRE(one_waits_for_a_row(db));
    REQUIRE(db.value(writing) != "0");
    db.sql(fmt::format("UPDATE {0} t JOIN saved_{0} s USING(name) SET {1},t.version={2}; COMMIT",
                       table, grant, version));
    const auto p = polled.get();
    REQUIRE(p);
    CHECK(std::holds_alternative<Waiting>(*p));
    CHECK(b->check(key("k"), first.token).value() == Validity::valid);
    CHECK(w->cancel());
    b->release(first).value();
  }
}

TEST_CASE("a request that arrives after its sender gave up gets no grant") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(through(proxy, db), quick(1500ms)), b = open_mysql(db.url(), patient());
  warm_up(*b, 1);
  const int grants = GENERATE(0, 2);
  warm_up(*a, grants);
  proxy.hold(grants < 2 ? "UPDATE dlock_lock" : "dlock1 k");  // prepared: only the values are sent
  auto w = waiter(*a, request(key("k"), 30s));
  CHECK_FALSE(w->poll(0us));
  REQUIRE(proxy.holds_one());
  release_or_fail(*a, granted_within(*w));  // over another session
  const auto fence = b->inspect(key("k")).value()->fence;
  proxy.let_go();
  REQUIRE(proxy.answered());
  const auto seen = b->inspect(key("k")).value();
  CHECK(seen->holders.empty());
  CHECK(seen->fence == fence);
}

TEST_CASE(
    "a lease shortened by another process ends at its new deadline, and the lock-delay is kept") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient()),
             c = open_mysql(db.url(), patient());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
  Request r = request(key("k"), 30s);
  r.lock_delay = 600s;
  const Lease lease = acquire_or_fail(*a, r);
  REQUIRE(kept(b->renew(lease, 300ms)));
  REQUIRE(becomes([&] { return c->check(key("k"), lease.token).value() == Validity::stale; }));
  CHECK(a->release(lease).value() == Released::was_not_held);
  auto w = waiter(*c, request(key("k"), 30s));
  CHECK(waits(*w, 50ms));
}

TEST_CASE(
    "several keys of one owner: when the session that had its name is lost, another takes it") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient());
  const Lease held = acquire_or_fail(*b, request(key("k2"), 60s));
  const Request one = request(key("k1"), 60s);
  Request two = one;
  two.key = key("k2");
  acquire_or_fail(*a, one);
  auto w = waiter(*a, two);
  REQUIRE(waits(*w, 50ms));
  const std::string who = fmt::format("SELECT COALESCE(IS_USED_LOCK('dl:{}'),0)", one.owner.hex());
  db.sql("KILL " + db.value(who));
  CHECK(becomes([&] { return (void)w->poll(100ms), db.value(who) != "0"; }));
  b->release(held).value();
  granted_within(*w);
}

TEST_CASE("a token near the end of the number range does not fall") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
  db.sql("UPDATE dlock_lock SET fence=9223372036854775807");
  CHECK(acquire_or_fail(*a, request(key("k"), 30s)).token == 9223372036854775808U);
}

TEST_CASE("tokens rise where the newest one is ahead of the server's clock") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient());
  const Lease first = acquire_or_fail(*a, request(key("k"), 30s));
  release_or_fail(*a, first);
  db.sql("UPDATE dlock_lock SET fence=fence+3600000000");
  for (FencingToken i = 1; i <= 4; ++i) {
    const Lease next = acquire_or_fail(*a, request(key("k"), 30s));
    CHECK(next.token == first.token + 3600000000 + i);
    release_or_fail(*a, next);
  }
}

TEST_CASE("a lost reply to joining the queue makes no second place") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto holder = open_mysql(db.url(), patient()),
             a = open_mysql(through(proxy, db), patient());
  const Lease held = acquire_or_fail(*holder, request(key("k"), 60s));
  auto w = waiter(*a, request(key("k"), 60s));
  proxy.lose_reply("INSERT INTO dlock_wait");
  REQUIRE(becomes([&] { return (void)w->poll(20ms), proxy.lost_one(1ms); }));
  REQUIRE(waits(*w));
  CHECK(db.value("SELECT COUNT(*) FROM dlock_wait") == "1");
  holder->release(held).value();
  granted_within(*w);
}
