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

void check_holds(Backend& b, const Lease& lease) {
  CHECK(kept(b.renew(lease, 30s)));
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
    const auto a = open_mysql(through(proxy, db), quick(5s), "for-update"),
               b = open_mysql(db.url(), calm(), "for-update");
    const Request asks = request(key("k"), 30s);
    proxy.hold(fmt::format("'{}',", asks.owner.hex()));  // as the value of a column
    auto w = waiter(*a, asks);
    auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
    REQUIRE(proxy.holds_one());
    const auto session = db.value(fmt::format(
        "SELECT IS_USED_LOCK(CONCAT('dl:{}',LEFT(SHA2('k',256),16)))", asks.owner.hex()));
    REQUIRE_FALSE(session.empty());
    db.sql("KILL " + session);
    const Lease next = granted_within(*waiter(*b, request(key("k"), 30s)), 10s);
    proxy.let_go();
    const auto p = polled.get();
    CHECK_FALSE(would_start(p));
    check_holds(*b, next);
    CHECK(db.value("SELECT fence FROM dlock_grant WHERE name='k'") == std::to_string(next.token));
    CHECK(b->release(next).value() == Released::yes);
    proxy.cut();
  }
}

TEST_CASE("insert: a forced release of a foreign row does not end the next holder's lock") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(db.url(), calm(), "insert"),
             late = open_mysql(through(proxy, db), quick(5s), "insert");
  release_or_fail(*a, acquire_or_fail(*a, request(key("warm"))));
  db.sql("INSERT INTO method_lock(method_name,method_desc) VALUES('k','by hand')");
  proxy.hold("DELETE FROM `method_lock`");
  auto forced =
      std::async(std::launch::async, [&] { return late->force_release(key("k"), std::nullopt); });
  REQUIRE(proxy.holds_one());
  db.sql("DELETE FROM method_lock WHERE method_name='k'");
  const Lease next = granted_within(*waiter(*a, request(key("k"), 30s)), 10s);
  proxy.let_go();
  CHECK(forced.get().value() == Released::was_not_held);
  CHECK(kept(a->renew(next, 30s)));
  db.sql("DELETE FROM method_lock WHERE method_name='k'");
  db.sql("INSERT INTO method_lock(method_name,method_desc) VALUES('k','by hand')");
  CHECK(a->force_release(key("k"), std::nullopt).value() == Released::yes);
}

TEST_CASE("lease: a grant that is refused leaves the row of its owner") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto other = open_mysql(db.url(), calm(), "lease"),
             late = open_mysql(through(proxy, db), quick(5s), "lease");
  warm_up(*other, 1);
  const Lease first = acquire_or_fail(*other, request(key("k"), 30s));
  db.sql("CREATE TABLE saved AS SELECT * FROM dlock_lock");
  auto w = waiter(*late, request(key("k"), 30s));
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
  granted_within(*w, 10s);
}
