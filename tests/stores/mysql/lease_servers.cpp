// SPDX-License-Identifier: Apache-2.0
// Recipe lease: faults between client and server, and changes to its tables by others.
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE(
    "over a slow way a holder renews, also when its session was killed: each answer has its time") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(through(proxy, db), quick(2s, 5s));
  const Lease lease = acquire_or_fail(*a, request(key("k"), 600s));
  for (const auto side : {Proxy::to_server, Proxy::to_client}) proxy.delay(side, 400ms);
  // A busy machine may delay a try by more; with one time for all of its answers none succeeds.
  bool renews = false;
  for (int i = 0; i < 5 && !renews; ++i) {
    kill_sessions(db);
    renews = kept(a->renew(lease, 600s));
  }
  CHECK(renews);
}

TEST_CASE("a deleted row, or deleted tables: the holder is told, and the next token is greater") {
  Database db{server()};
  for (const char* statement : {"DELETE FROM dlock_lock", "DROP TABLE dlock_lock, dlock_wait"}) {
    CAPTURE(statement);
    const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient());
    const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
    db.sql(statement);
    const Lease next = acquire_or_fail(*b, request(key("k"), 30s));
    CHECK(next.token > lease.token);
    CHECK(lost(a->renew(lease, 30s)));
    CHECK(a->release(lease).value() == Released::was_not_held);
    CHECK(kept(b->renew(next, 30s)));
    b->release(next).value();
  }
}

TEST_CASE("rights revoked while in use: denied, and nothing is forgotten") {
  Database db{server()};
  acquire_or_fail(*open_mysql(db.url()), request(key("first")));  // creates the tables
  server().sql(
      fmt::format("CREATE OR REPLACE USER least@'%'; GRANT SELECT,INSERT,UPDATE,DELETE ON "
                  "{0}.dlock_wait TO least@'%';"
                  "GRANT SELECT,INSERT,UPDATE ON {0}.dlock_lock TO least@'%'",
                  db.name()));
  const auto a = open_mysql(
      fmt::format("mysql://least@127.0.0.1:{}/{}", server().port(), db.name()), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  server().sql(fmt::format("REVOKE UPDATE ON {}.dlock_lock FROM least@'%'", db.name()));
  const auto r = a->renew(lease, 30s);
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::denied);
  server().sql(fmt::format("GRANT UPDATE ON {}.dlock_lock TO least@'%'", db.name()));
  CHECK(kept(a->renew(lease, 30s)));
  CHECK(a->release(lease).value() == Released::yes);
}

TEST_CASE("without the right to create tables the error gives the SQL") {
  Database db{server()};
  server().sql(fmt::format(
      "CREATE OR REPLACE USER poor@'%'; GRANT SELECT,INSERT,UPDATE,DELETE ON {}.* TO poor@'%'",
      db.name()));
  const auto a = open_mysql(fmt::format("mysql://poor@127.0.0.1:{}/{}", server().port(), db.name()),
                            patient());
  auto w = waiter(*a, request(key("k")));
  const auto p = w->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::cannot_create);
  CHECK(p.error().message.find("CREATE TABLE IF NOT EXISTS dlock_lock") != std::string::npos);
  CHECK(p.error().message.find('\n') == std::string::npos);
  const auto wrong =
      open_mysql(fmt::format("mysql://poor@127.0.0.1:{}/nosuch", server().port()), patient());
  const auto none = waiter(*wrong, request(key("k")))->poll(0us);
  REQUIRE_FALSE(none);
  CHECK((none.error().code == Errc::cannot_create || none.error().code == Errc::denied));
}

TEST_CASE("a server with no connection left") {
  MariadbServer own{{.config = {"max_connections=10"}}};
  Database db{own};
  std::vector<std::unique_ptr<mysql::Connection>> all;
  try {
    for (int i = 0; i < 20; ++i) all.push_back(connect_as_root(own.socket()));
  } catch (const std::runtime_error&) {}
  const auto a = open_mysql(db.url(), quick(2s, 5s));
  auto w = waiter(*a, request(key("k")));
  const auto p = w->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("max_connections") != std::string::npos);
  all.clear();
  granted_within(*w);
}

TEST_CASE("a released lock is granted at once although the holder's name was lost") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient());
  CHECK(once_within(4s, [&] {  // a lost wake-up shows after 5 s
    const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
    auto w = waiter(*b, request(key("k"), 60s));
    REQUIRE(waits(*w));
    kill_sessions(db);
    (void)w->poll(300ms);
    return granted_behind(*w, *b, [&] { CHECK(a->release(lease).value() == Released::yes); });
  }));
}
