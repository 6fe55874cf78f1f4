// SPDX-License-Identifier: Apache-2.0
// Settings and rights of the server under which single statements fail, or answers are cut.
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

Request permit(unsigned limit) {
  Request r = request(key("k"), 30s);
  r.mode = Mode::permit;
  r.limit = limit;
  return r;
}

// May do everything but delete rows.
std::string without_delete(Database& db) {
  db.sql("CREATE OR REPLACE USER nodelete@'%'");
  db.sql(fmt::format("GRANT SELECT,INSERT,UPDATE ON {}.* TO nodelete@'%'", db.name()));
  std::string url = db.url();
  return url.replace(url.find("root@"), 5, "nodelete@");
}

}  // namespace

TEST_CASE("sql_safe_updates and sql_select_limit of the server change nothing") {
  MariadbServer own;
  Database db{own};
  own.sql("SET GLOBAL sql_safe_updates=1,GLOBAL sql_select_limit=1");
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient()),
             c = open_mysql(db.url(), patient()), d = open_mysql(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  a->release(lease).value();
  b->release(granted_within(*w)).value();
  CHECK(db.value("SELECT COUNT(*) FROM dlock_wait") == "0");

  // All waiters ahead are seen: the second one may not run before the first, which waits for both.
  const Lease one = acquire_or_fail(*a, permit(3)), two = acquire_or_fail(*b, permit(3));
  auto narrow = waiter(*c, permit(1)), wide = waiter(*d, permit(3));
  REQUIRE(waits(*narrow, 20ms));
  REQUIRE(waits(*wide, 20ms));
  CHECK(a->inspect(key("k")).value()->waiters.size() == 2);
  CHECK(a->release(one).value() == Released::yes);
  CHECK(waits(*wide, 200ms));
  CHECK(b->release(two).value() == Released::yes);
  c->release(granted_within(*narrow)).value();
  d->release(granted_within(*wide)).value();
}

TEST_CASE("a row of the queue that cannot be deleted fails no grant, and keeps none") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient());
  Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  const std::string url = without_delete(db);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const auto b = open_mysql(url, patient());
    auto w = waiter(*b, request(key("k"), 30s));
    REQUIRE(waits(*w, 20ms));
    a->release(lease).value();
    const Lease got = granted_within(*w);
    CHECK(kept(b->renew(got, 30s)));
    if (round == 0) {
      CHECK_FALSE(w->cancel());  // its row stays
    } else {
      CHECK(b->release(got).value() == Released::yes);
    }
    auto next = waiter(*a, request(key("k"), 30s));
    lease = granted_within(*next);
    CHECK(lease.token > got.token);
  }
}

TEST_CASE("a row of the queue that another transaction has locked does not delay the deadline") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), quick(3s));
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  auto w = waiter(*b, request(key("k"), 60s));
  REQUIRE(waits(*w, 20ms));
  db.sql("START TRANSACTION");
  db.sql("SELECT * FROM dlock_wait FOR UPDATE");
  a->release(lease).value();
  const Lease got = granted_within(*w);
  db.sql("COMMIT");
  const auto seen = a->inspect(key("k")).value();
  const Deadline now = Clock::now();
  REQUIRE(seen->holders.size() == 1);
  CHECK(got.deadline <= later(now, *seen->holders[0].remaining));
  CHECK(b->release(got).value() == Released::yes);
}

TEST_CASE("get-lock where tables in memory are forbidden: InnoDB, and tokens rise") {
  MariadbServer own;
  Database db{own};
  own.sql("SET GLOBAL enforce_storage_engine=InnoDB");
  const std::string url = url_of(db.url(), db, "get-lock");
  const auto a = open_mysql(url, patient(), "get-lock"), b = open_mysql(url, patient(), "get-lock");
  CHECK(about(*a, "tables").seen == "dlock_named missing: made at the first use");
  const Lease first = acquire_or_fail(*a, request(key("k"), 30s));
  CHECK(db.value("SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME='dlock_named'") ==
        "InnoDB");
  for (const char* what : {"tables", "rights"}) CHECK(about(*b, what).level == Level::good);
  auto w = waiter(*b, request(key("k"), 30s));
  CHECK(waits(*w, 20ms));
  CHECK(kept(a->renew(first, 30s)));
  CHECK(a->release(first).value() == Released::yes);
  const Lease second = granted_within(*w);
  CHECK(second.token > first.token);
  CHECK(b->release(second).value() == Released::yes);
}

// What a restart leaves of a table on disk: the number of a session that another one has now.
TEST_CASE("get-lock: the record of a session is not in force for another of the same number") {
  MariadbServer own;
  Database db{own};
  own.sql("SET GLOBAL enforce_storage_engine=InnoDB");
  const std::string url = url_of(db.url(), db, "get-lock");
  const Lease old = [&] {
    const auto a = open_mysql(url, patient(), "get-lock");
    Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
    own.restart();
    return lease;
  }();
  const auto other = connect_as_root(own.socket(), db.name());
  const auto now = [&](const std::string& sql) {
    return std::string{other->query("ask", sql, Clock::now() + 10s).value().text(0)};
  };
  REQUIRE(now(fmt::format("SELECT GET_LOCK('{}:k',0)", db.name())) == "1");
  // sessions count from the beginning: sooner or later it is this number
  now("UPDATE dlock_named SET conn=CONNECTION_ID()");
  const auto b = open_mysql(url, patient(), "get-lock");
  CHECK(b->check(key("k"), old.token).value() == Validity::stale);
  CHECK(b->check(key("k"), old.owner).value() == Validity::stale);
  const auto seen = b->inspect(key("k")).value().value();
  CHECK(seen.notes == std::vector<std::string>{"held by another program"});
  CHECK(b->force_release(key("k"), old.token).value() == Released::was_not_held);
  CHECK(now("SELECT 1") == "1");  // the session of the other program lives
}

TEST_CASE("an option that forbids an engine is not taken for a server that is read-only") {
  MariadbServer own;
  Database db{own};
  own.sql("SET GLOBAL enforce_storage_engine=Aria");
  const auto b = open_mysql(db.url(), patient());
  const auto done = waiter(*b, request(key("k"), 30s))->poll(0us);
  REQUIRE_FALSE(done);
  CAPTURE(done.error().message);
  CHECK(done.error().code == Errc::cannot_create);
  CHECK(done.error().message.find("read-only") == std::string::npos);
  const Finding tables = about(*b, "tables");
  CAPTURE(tables.seen);
  CHECK(tables.level == Level::bad);
  CHECK(tables.seen.find("1290") != std::string::npos);
}
