// SPDX-License-Identifier: Apache-2.0
// get-lock and for-update: a lock that belongs to a session. insert and version: a lock that is a
// row.
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("get-lock: a heartbeat counts only in the session that the record names") {
  Database db{server()};
  const auto a = open_mysql(url_of(db.url(), db, "get-lock"), patient(), "get-lock");
  const Granted g = take_all(*a, request(key("k"), 30s));
  CHECK(kept(a->renew(g.lease, 30s)));
  // as if a proxy had given our statements to another session
  db.sql("UPDATE dlock_named SET conn=conn+1 WHERE owner<>''");
  CHECK(lost(a->renew(g.lease, 30s)));
}

TEST_CASE(
    "get-lock: a session that released waits again, and its record of the last grant is not in "
    "force meanwhile") {
  Database db{server()};
  Proxy proxy{server().port()};
  const std::string url = url_of(db.url(), db, "get-lock"), name = db.name() + ":k";
  const auto a = open_mysql(url_of(through(proxy, db), db, "get-lock"), patient(), "get-lock"),
             b = open_mysql(url, patient(), "get-lock");
  const Lease first = acquire_or_fail(*a, request(key("k"), 30s));
  release_or_fail(*a, first);
  // taken once, released once; the session lives
  CHECK(db.value(fmt::format("SELECT IS_FREE_LOCK('{}')", name)) == "1");
  CHECK(b->check(key("k"), first.token).value() == Validity::stale);
  CHECK(db.value(fmt::format("SELECT GET_LOCK('{}',0)", name)) == "1");  // another program
  auto w = waiter(*a, request(key("k"), 30s));
  REQUIRE(becomes([&] {
    return waits(*w, 50ms) &&
           db.value(
               "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE 'SELECT "
               "GET_LOCK%' AND ID IN (SELECT conn FROM dlock_named)") == "1";
  }));
  // It gets the lock, and only then can it write its owner.
  proxy.hold("INSERT INTO dlock_named");
  db.sql(fmt::format("DO RELEASE_LOCK('{}')", name));
  std::thread polls([&] { (void)w->poll(60s); });
  CHECK(proxy.holds_one());
  CHECK(db.value(fmt::format("SELECT IS_USED_LOCK('{}')=conn FROM dlock_named", name)) == "1");
  CHECK(b->check(key("k"), first.token).value() == Validity::stale);
  CHECK(b->inspect(key("k")).value().value().notes ==
        std::vector<std::string>{"held by another program"});
  proxy.let_go();
  polls.join();
  const Lease second = granted_within(*w);
  CHECK(second.token > first.token);
  release_or_fail(*a, second);
  // as if the server's clock had gone back by an hour since
  db.sql("UPDATE dlock_named SET fence=fence+3600000000");
  CHECK(acquire_or_fail(*b, request(key("k"), 30s)).token > second.token + 3'600'000'000);
}

TEST_CASE("get-lock: an owner that returns after others has another token") {
  Database db{server()};
  const std::string url = url_of(db.url(), db, "get-lock"), name = db.name() + ":k";
  const auto a = open_mysql(url, patient(), "get-lock");
  const Request r = request(key("k"), 30s);
  const Lease one = acquire_or_fail(*a, r), other = acquire_or_fail(*a, request(key("z"), 30s));
  release_or_fail(*a, one);
  release_or_fail(*a, other);  // the next acquisition uses its session
  CHECK(db.value(fmt::format("SELECT GET_LOCK('{}',0)", name)) == "1");
  auto w = waiter(*a, r);
  REQUIRE(waits(*w, 50ms));
  db.sql(fmt::format("DO RELEASE_LOCK('{}')", name));
  CHECK(granted_within(*w).token > one.token);
}

// The statement of a grant is sent as text, then prepared, then executed.
TEST_CASE("get-lock: the first grants over a session take the same lock, whatever its name") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient(), "get-lock"),
             b = open_mysql(db.url(), patient(), "get-lock");
  const auto [name, in_sql] = GENERATE(table<std::string, std::string>(
      {{"grants", "'grants'"},
       {"gr\u00e4nts", "_utf8mb4 x'6772c3a46e7473'"},
       {std::string(200, 'g'), "CONCAT('dlock:',SHA1(REPEAT('g',200)))"}}));
  FencingToken newest = 0;
  for (int i = 0; i < 4; ++i) {
    CAPTURE(name, i);
    const Request r = request(key(name), 30s);
    const Granted g = take_all(*a, r);
    CHECK(g.lease.token > std::exchange(newest, g.lease.token));
    CHECK(db.value(fmt::format("SELECT IS_USED_LOCK({}) IS NOT NULL", in_sql)) == "1");
    const auto seen = b->inspect(key(name)).value().value();
    REQUIRE(seen.holders.size() == 1);
    CHECK(seen.holders[0].token == g.lease.token);
    CHECK(b->check(key(name), r.owner).value() == Validity::valid);
    Request other = request(key(name), 30s);
    other.wait = false;
    CHECK(std::holds_alternative<Busy>(waiter(*b, other)->poll(0us).value()));
    CHECK(a->release(g.lease).value() == Released::yes);
    CHECK(db.value(fmt::format("SELECT IS_USED_LOCK({}) IS NOT NULL", in_sql)) == "0");
  }
}

TEST_CASE("a proxy that shares connections") {
  Database db{server()};
  // What such a proxy looks like: the server reports another connection id than in its greeting.
  server().sql("SET GLOBAL init_connect='SET SESSION pseudo_thread_id=42'");
  server().sql(
      fmt::format("CREATE OR REPLACE USER shared@'%'; GRANT ALL ON {}.* TO shared@'%'; GRANT "
                  "BINLOG ADMIN, BINLOG REPLAY ON *.* "
                  "TO shared@'%'",
                  db.name()));
  const auto b =
      open_mysql(fmt::format("mysql://shared@127.0.0.1:{}/{}", server().port(), db.name()),
                 patient(), "get-lock");
  const auto q = waiter(*b, request(key("k"), 30s))->poll(0us);
  const auto leases = open_mysql(
      fmt::format("mysql://shared@127.0.0.1:{}/{}", server().port(), db.name()), patient());
  acquire_or_fail(*leases, request(key("k")));
  const auto seen = leases->inspect(key("k")).value().value();
  server().sql("SET GLOBAL init_connect=''");
  REQUIRE_FALSE(q);
  CHECK(q.error().code == Errc::usage);
  CHECK(q.error().message.find("proxy") != std::string::npos);
  CHECK(seen.notes == std::vector<std::string>{"wake=poll: waiters poll"});
}

// Another session would leave the wait of the first one in the server.
TEST_CASE("for-update: a waiter keeps its session for as long as the server lets it wait") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient(), "for-update"),
             b = open_mysql(db.url(), quick(3s, 60s), "for-update");
  const Lease held = acquire_or_fail(*a, request(key("k"), 60s));
  auto w = waiter(*b, request(key("k"), 60s));
  const auto answer = w->poll(16s);
  REQUIRE(answer);
  CHECK(std::holds_alternative<Waiting>(*answer));
  release_or_fail(*a, held);
  granted_within(*w);
}

// The record says which session has the lock, so the record of the lost session does not do.
TEST_CASE("for-update: a session that takes the place of a lost one writes a record of its own") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(through(proxy, db), patient(), "for-update"),
             b = open_mysql(db.url(), patient(), "for-update");
  proxy.lose_reply("SELECT IS_USED_LOCK('dl:");  // its record is written by then
  const Lease held = granted_within(*waiter(*a, request(key("k"), 60s)));
  CHECK(proxy.lost_one());
  CHECK(b->check(key("k"), held.token).value() == Validity::valid);
  CHECK(kept(a->renew(held, 60s)));
  CHECK(b->force_release(key("k"), held.token).value() == Released::yes);
}

TEST_CASE("a forced release ends when a waiter has got the lock") {
  const std::string recipe = GENERATE("get-lock", "for-update");
  CAPTURE(recipe);
  Database db{server()};
  const auto a = open_mysql(db.url(), patient(), recipe),
             b = open_mysql(db.url(), patient(), recipe),
             admin = open_mysql(db.url(), patient(), recipe);
  const Lease first = acquire_or_fail(*a, request(key("k"), 600s));
  auto w = waiter(*b, request(key("k"), 600s));
  REQUIRE(waits(*w, 300ms));
  const Deadline from = Clock::now();
  auto forced =
      std::async(std::launch::async, [&] { return admin->force_release(key("k"), first.token); });
  CHECK(granted_within(*w).token > first.token);
  CHECK(forced.get().value() == Released::yes);
  CHECK(Clock::now() - from < patient().op_timeout);
}

TEST_CASE("insert: a foreign row stays, except with ?stale_after=") {
  Database db{server()};
  const auto b = open_mysql(db.url(), patient(), "insert");
  const Lease first = acquire_or_fail(*b, request(key("k"), 30s));
  release_or_fail(*b, first);
  CHECK(db.value("SELECT COUNT(*) FROM method_lock") == "0");

  db.sql(
      "INSERT INTO method_lock(method_name,method_desc,update_time) VALUES('k','by "
      "hand',NOW(6)-INTERVAL 1 HOUR)");
  auto for_ever = waiter(*b, request(key("k"), 30s));
  CHECK(waits(*for_ever, 300ms));
  const auto seen = b->inspect(key("k")).value().value();
  CHECK(seen.notes == std::vector<std::string>{"held by another program"});
  const auto cautious = open_mysql(db.url() + "?stale_after=2h", patient(), "insert");
  CHECK(waits(*waiter(*cautious, request(key("k"), 30s))));
  const auto bold = open_mysql(db.url() + "?stale_after=30m", patient(), "insert");
  CHECK(acquire_or_fail(*bold, request(key("k"), 30s)).token > first.token);
}

TEST_CASE("version: a write based on an old version fails") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient(), "version");
  const Lease l = acquire_or_fail(*a, request(key("k"), 30s));
  const auto version = db.value("SELECT version FROM dlock_version");
  CHECK(kept(a->renew(l, 30s)));
  CHECK(db.sql("UPDATE dlock_version SET owner='',version=version+1 WHERE version=" + version)
            .affected == 0);
  // Another client that follows the rule: it waits for the end, and its token is greater.
  CHECK(db.sql("UPDATE dlock_version SET owner='x',until=0,version=version+1 WHERE "
               "until<TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))")
            .affected == 0);
  CHECK(a->release(l).value() == Released::yes);
}
