// SPDX-License-Identifier: Apache-2.0
// A message of one client arrives when another holds the lock already: it must not touch that
// holder's record, and that holder's token must stay the greater one.
#include <atomic>
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// True once it is granted and would start a job.
bool would_start(const Result<Progress>& p) {
  const auto* g = p ? std::get_if<Granted>(&*p) : nullptr;
  return g && Clock::now() < g->lease.deadline;
}

// The request of `late`, which the proxy holds back, reaches the server when `other` has the lock
// already, and is no grant. Answers the lease of `other`.
Lease granted_before(Proxy& proxy, Backend& late, Duration ttl, Backend& other) {
  auto w = waiter(late, request(key("k"), ttl));
  auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
  REQUIRE(proxy.holds_one());
  const Lease next = granted_within(*waiter(other, request(key("k"), 600s)));
  proxy.let_go();
  CHECK_FALSE(would_start(polled.get()));
  return next;
}

void check_holds(Backend& b, const Lease& lease) {
  CHECK(kept(b.renew(lease, 600s)));
  CHECK(b.check(key("k"), lease.token).value() == Validity::valid);
}

}  // namespace

TEST_CASE("for-update: the record of a dead session does not replace that of the next holder") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto warm = open_mysql(db.url(), {}, "for-update");  // makes the tables
  release_or_fail(*warm, acquire_or_fail(*warm, request(key("warm"))));
  for (const bool known : {false, true}) {  // a key without a record, and one with
    CAPTURE(known);
    const auto a = open_mysql(through(proxy, db), patient(), "for-update"),
               b = open_mysql(db.url(), patient(), "for-update");
    const Request asks = request(key("k"), 600s);
    proxy.hold(fmt::format("'{}',", asks.owner.hex()));  // as the value of a column
    auto w = waiter(*a, asks);
    auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
    REQUIRE(proxy.holds_one());
    const auto session = db.value(fmt::format(
        "SELECT IS_USED_LOCK(CONCAT('dl:{}',LEFT(SHA2('k',256),16)))", asks.owner.hex()));
    REQUIRE_FALSE(session.empty());
    db.sql("KILL " + session);
    const Lease next = granted_within(*waiter(*b, request(key("k"), 600s)));
    proxy.let_go();
    const auto p = polled.get();
    CHECK_FALSE(would_start(p));
    check_holds(*b, next);
    CHECK(db.value("SELECT fence FROM dlock_grant WHERE name='k'") == std::to_string(next.token));
    CHECK(b->release(next).value() == Released::yes);
    proxy.cut();
  }
}

TEST_CASE("insert: the record of an expired grant does not replace that of the next holder") {
  Database db{server()};
  Proxy proxy{server().port()};
  release_or_fail(*open_mysql(db.url(), {}, "insert"),
                  acquire_or_fail(*open_mysql(db.url(), {}, "insert"), request(key("warm"))));
  const auto a = open_mysql(through(proxy, db), patient(), "insert"),
             b = open_mysql(db.url(), patient(), "insert");
  proxy.hold("INSERT INTO dlock_insert");
  const Lease next = granted_before(proxy, *a, 500ms, *b);
  const auto renewed = b->renew(next, 600s);
  REQUIRE(kept(renewed));
  CHECK(std::get<Kept>(*renewed).lease.token == next.token);
  CHECK(b->check(key("k"), next.token).value() == Validity::valid);
  CHECK(b->release(next).value() == Released::yes);
}

TEST_CASE(
    "get-lock: lock and record are one statement of one session; statements sent before it died "
    "change nothing") {
  Database db{server()};
  Proxy proxy{server().port()};
  const std::string prefix = "?prefix=" + db.name() + ":";
  const auto b = open_mysql(db.url() + prefix, patient(), "get-lock");
  release_or_fail(*b, acquire_or_fail(*b, request(key("k"))));
  const auto a = open_mysql(through(proxy, db) + prefix, patient(), "get-lock");
  const int grants = GENERATE(0, 1, 2);
  warm_up(*a, grants);
  // the prepared statement is held with the values alone: the name of the lock is among them
  proxy.hold(grants < 2 ? "UPDATE dlock_named" : db.name() + ":k");
  const Lease next = granted_before(proxy, *a, 600s, *b);
  check_holds(*b, next);
}

TEST_CASE("insert: a forced release of a foreign row does not end the next holder's lock") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(db.url(), patient(), "insert"),
             late = open_mysql(through(proxy, db), patient(), "insert");
  release_or_fail(*a, acquire_or_fail(*a, request(key("warm"))));
  db.sql("INSERT INTO method_lock(method_name,method_desc) VALUES('k','by hand')");
  proxy.hold("DELETE FROM `method_lock`");
  auto forced =
      std::async(std::launch::async, [&] { return late->force_release(key("k"), std::nullopt); });
  REQUIRE(proxy.holds_one());
  db.sql("DELETE FROM method_lock WHERE method_name='k'");
  const Lease next = granted_within(*waiter(*a, request(key("k"), 600s)));
  proxy.let_go();
  CHECK(forced.get().value() == Released::was_not_held);
  CHECK(kept(a->renew(next, 600s)));
  db.sql("DELETE FROM method_lock WHERE method_name='k'");
  db.sql("INSERT INTO method_lock(method_name,method_desc) VALUES('k','by hand')");
  CHECK(a->force_release(key("k"), std::nullopt).value() == Released::yes);
}

TEST_CASE("lease: a wait that reaches the server late holds nobody up") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto other = open_mysql(db.url(), patient(), "lease");
  warm_up(*other, 1);
  CHECK(once_within(4s, [&] {
    const Lease first = acquire_or_fail(*other, request(key("k"), 60s));
    {
      const auto gone = open_mysql(through(proxy, db), quick(300ms), "lease");
      auto w = waiter(*gone, request(key("k"), 60s));
      REQUIRE(waits(*w));
      proxy.hold(",GET_LOCK('db:");
      REQUIRE(becomes([&] { return (void)w->poll(50ms), proxy.holds_one(1ms); }));
    }
    proxy.let_go();
    release_or_fail(*other, first);
    REQUIRE(proxy.answered());
    const Deadline from = Clock::now();
    const Lease next = granted_within(*waiter(*other, request(key("k"), 60s)));
    const auto took = Clock::now() - from;
    CHECK(next.token > first.token);
    check_holds(*other, next);
    release_or_fail(*other, next);
    return took;
  }));
}

TEST_CASE("lease: a grant that is refused leaves the row of its owner") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto other = open_mysql(db.url(), patient(), "lease"),
             late = open_mysql(through(proxy, db), patient(), "lease");
  warm_up(*other, 1);
  const Lease first = acquire_or_fail(*other, request(key("k"), 600s));
  db.sql("CREATE TABLE saved AS SELECT * FROM dlock_lock");
  auto w = waiter(*late, request(key("k"), 600s));
  REQUIRE(waits(*w, 20ms));
  const auto ticket = db.value("SELECT ticket FROM dlock_wait");
  proxy.hold("UPDATE dlock_lock l SET state=");
  std::atomic<bool> done{false};
  auto polled = std::async(std::launch::async, [&] {
    bool waited = true;
    while (!done) waited &= waits(*w, 200ms);
    return waited;
  });
  release_or_fail(*other, first);
  REQUIRE(proxy.holds_one());
  db.sql("UPDATE dlock_lock t JOIN saved s USING(name) SET t.state=s.state,t.version=t.version+1");
  proxy.let_go();
  CHECK(proxy.answered());
  done = true;
  CHECK(polled.get());
  CHECK(db.value("SELECT ticket FROM dlock_wait") == ticket);
  check_holds(*other, first);
  CHECK(other->release(first).value() == Released::yes);
  granted_within(*w);
}
