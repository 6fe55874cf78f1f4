// SPDX-License-Identifier: Apache-2.0
// --connect-timeout is exact, whatever the server fails to do; and what --doctor reports about a
// server.
#include "faults.hpp"
#include "mysql/client/connection.hpp"
#include "support/stranger.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

struct Took {
  Duration time{};
  Error error{Errc::internal, "connected"};
};
Took connect_to(std::uint16_t port, Duration timeout) {
  mysql::Options o;
  o.user = "root";
  o.op_timeout = 60s;
  const Deadline began = Clock::now();
  const auto c =
      mysql::Connection::open(o, {.host = "127.0.0.1", .port = port, .socket = {}}, timeout);
  Took took{std::chrono::duration_cast<Duration>(Clock::now() - began)};
  if (!c) took.error = c.error();
  return took;
}
void in_time(std::uint16_t port, Duration timeout) {
  // 900 ms later is the next whole second, the result without our own deadline
  CHECK(ends_within(timeout + 850ms, [&] {
    const Took t = connect_to(port, timeout);
    INFO(t.error.message);
    CHECK(t.error.code == Errc::unavailable);
    CHECK(t.time >= timeout);
  }));
}

}  // namespace

TEST_CASE(
    "connecting ends on time: a silent server, one that drips, one that accepts no connection") {
  constexpr Duration timeout = 1100ms;
  Proxy proxy{server().port()};
  proxy.blackhole(true);
  in_time(proxy.port(), timeout);
  proxy.blackhole(false);
  // each byte comes in time, all of them together take seconds
  proxy.drip(Proxy::to_client, 1, 50ms);
  in_time(proxy.port(), timeout);
  proxy.drip(Proxy::to_client, 0, 0ms);
  CHECK(connect_to(proxy.port(), 60s).error.message == "connected");

  // A listener whose queue is full drops packets: the TCP handshake gets no answer.
  const Listener full{0, 1, 0};
  sockaddr_in at{};
  socklen_t size = sizeof at;
  REQUIRE(::getsockname(full.fd.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  std::vector<Fd> queued;
  for (int i = 0; i < 4; ++i) {
    queued.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(queued.back().get(), reinterpret_cast<sockaddr*>(&at), sizeof at);
  }
  in_time(full.port, timeout);
}

TEST_CASE("a refused connection and a wrong password are reported at once") {
  const Took refused = connect_to(free_port(), 60s);
  CHECK(refused.error.code == Errc::unavailable);
  CHECK(refused.time < 50s);
  server().sql("CREATE OR REPLACE USER locked@'%' IDENTIFIED BY 'right'");
  const auto p =
      waiter(*open_mysql(fmt::format("mysql://locked:wrong@127.0.0.1:{}/x", server().port()),
                         patient()),
             request(key("k")))
          ->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::denied);
}

TEST_CASE("affected rows count the matched rows, even if unchanged") {
  Database db{server()};
  db.sql("CREATE TABLE t(v INT) ENGINE=InnoDB; INSERT INTO t VALUES(1)");
  mysql::Options o;
  o.user = "root";
  o.database = db.name();
  o.op_timeout = 10s;
  const auto c =
      mysql::Connection::open(o, {.host = "127.0.0.1", .port = server().port(), .socket = {}}, 60s);
  REQUIRE(c);
  CHECK((*c)->query("change", "UPDATE t SET v=1", Clock::now() + 60s).value().affected == 1);
}

TEST_CASE("doctor: a healthy server, for each recipe") {
  MariadbServer own{{.config = {"innodb_flush_log_at_trx_commit=1"}}};
  Database db{own};
  for (const char* recipe : {"lease", "get-lock", "for-update", "insert", "version"}) {
    CAPTURE(recipe);
    const auto b = open_mysql(db.url(), patient(), recipe);
    for (const bool used : {false, true}) {
      CAPTURE(used);
      const auto found = b->doctor();
      REQUIRE(found);
      for (const Finding& f : *found) {
        CAPTURE(f.what, f.seen, f.advice);
        CHECK(f.level == Level::good);
      }
      for (const char* what : {"server", "read_only", "tables", "isolation", "wait_timeout",
                               "max_connections", "wsrep_on", "proxy", "replication", "clock"})
        CHECK(about(*b, what).seen != "nothing said");
      const Finding tables = about(*b, "tables");
      CHECK((tables.seen.find("made at the first use") != std::string::npos) == !used);
      if (!used) release_or_fail(*b, acquire_or_fail(*b, request(key("k"))));
    }
  }
  const auto count =
      db.value("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE()");
  (void)open_mysql(db.url() + "?table=mine", patient(), "version")->doctor();
  CHECK(db.value("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE()") ==
        count);  // doctor creates nothing
}

TEST_CASE("doctor: wait_timeout, read_only, isolation, durability, connections") {
  MariadbServer own{
      {.config = {"wait_timeout=5", "transaction-isolation=SERIALIZABLE", "max_connections=20"}}};
  Database db{own};
  const auto lease = open_mysql(db.url(), patient()),
             held = open_mysql(db.url(), patient(), "get-lock");
  CHECK(about(*lease, "wait_timeout").level == Level::warning);
  CHECK(about(*lease, "wait_timeout").seen == "5");
  CHECK(about(*held, "wait_timeout").advice.find("other programs") != std::string::npos);
  CHECK(about(*lease, "isolation").level == Level::good);  // whatever the server's default is
  CHECK(about(*lease, "isolation").seen == "READ-COMMITTED");
  CHECK(about(*lease, "max_connections").level == Level::warning);
  CHECK(about(*lease, "innodb_flush_log_at_trx_commit").level == Level::warning);
  CHECK(about(*held, "innodb_flush_log_at_trx_commit").level == Level::good);
  own.sql("SET GLOBAL wait_timeout=28800, GLOBAL read_only=1");
  // A session keeps the settings from its start.
  const auto fresh = open_mysql(db.url(), patient());
  CHECK(about(*fresh, "wait_timeout").level == Level::good);
  CHECK(about(*fresh, "read_only").level == Level::bad);
  CHECK_FALSE(about(*fresh, "read_only").advice.empty());
  own.sql("SET GLOBAL read_only=0, GLOBAL idle_transaction_timeout=9, GLOBAL max_statement_time=7");
  CHECK(about(*open_mysql(db.url(), patient(), "for-update"), "idle_transaction_timeout").level ==
        Level::bad);
  CHECK(about(*open_mysql(db.url(), patient()), "max_statement_time").level == Level::warning);
}

TEST_CASE(
    "doctor: tables that are missing and cannot be created, have a wrong engine, or are foreign") {
  Database db{server()};
  server().sql(fmt::format(
      "CREATE OR REPLACE USER poor@'%'; GRANT SELECT,INSERT,UPDATE,DELETE ON {0}.* TO poor@'%';"
      "CREATE OR REPLACE USER maker@'%'; GRANT ALL ON {0}.* TO maker@'%'",
      db.name()));
  const auto as = [&](const char* user, const char* recipe, const std::string& items = "") {
    return open_mysql(
        fmt::format("mysql://{}@127.0.0.1:{}/{}{}", user, server().port(), db.name(), items),
        patient(), recipe);
  };
  const Finding missing = about(*as("poor", "lease"), "tables");
  CHECK(missing.level == Level::bad);
  CHECK(missing.seen == "dlock_lock, dlock_wait missing, and this account may not make them");
  CHECK(missing.advice.find("dlock-mysql(7)") != std::string::npos);
  CHECK(about(*as("maker", "lease"), "tables").level == Level::good);
  acquire_or_fail(*as("maker", "lease"), request(key("k")));
  CHECK(about(*as("poor", "lease"), "tables").seen == "there");
  CHECK(about(*as("poor", "lease"), "rights").level == Level::good);
  db.sql(fmt::format("CREATE OR REPLACE USER few@'%'; GRANT SELECT,INSERT ON {0}.* TO few@'%'",
                     db.name()));
  const Finding rights = about(*as("few", "lease"), "rights");
  CHECK(rights.level == Level::bad);
  CHECK(rights.seen == "missing: UPDATE on dlock_lock, UPDATE on dlock_wait, DELETE on dlock_wait");
  db.sql("DROP TABLE dlock_wait");
  CHECK(about(*as("poor", "lease"), "tables").seen ==
        "dlock_wait missing, and this account may not make them");

  CHECK(about(*as("maker", "for-update", "?table=QRTZ_LOCKS&key_column=LOCK_NAME"),
              "table QRTZ_LOCKS")
            .level == Level::bad);
  db.sql("CREATE TABLE QRTZ_LOCKS(LOCK_NAME VARCHAR(40) PRIMARY KEY) ENGINE=MyISAM");
  const Finding engine = about(*as("maker", "for-update", "?table=QRTZ_LOCKS&key_column=LOCK_NAME"),
                               "table QRTZ_LOCKS");
  CHECK(engine.level == Level::bad);
  CHECK(engine.seen == "engine MyISAM");
}

TEST_CASE("for-update on a table whose engine locks no rows is refused: it would not exclude") {
  Database db{server()};
  db.sql("CREATE TABLE locks(name VARCHAR(40) PRIMARY KEY) ENGINE=MyISAM");
  const auto b = open_mysql(db.url() + "?table=locks&key_column=name", patient(), "for-update");
  const auto p = waiter(*b, request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::usage);
  CHECK(p.error().message.find("MyISAM") != std::string::npos);
  db.sql("ALTER TABLE locks ENGINE=InnoDB");
  acquire_or_fail(*b, request(key("k"), 10s));
}
