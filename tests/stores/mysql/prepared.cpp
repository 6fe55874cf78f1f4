// SPDX-License-Identifier: Apache-2.0
// Repeated statements: as text, prepared, and with their values alone they do the same; and what
// they do when the server does not answer, or does not prepare.
#include <fcntl.h>
#include <sys/stat.h>
#include "faults.hpp"
#include "mysql/client/connection.hpp"

using namespace dlock;
using namespace dlock::mysql;
using namespace dlock::test;

namespace {

constexpr const char* table =
    "CREATE TABLE t(id INT PRIMARY KEY, b VARBINARY(300), s VARCHAR(300) CHARACTER SET utf8mb4, "
    "i BIGINT, u BIGINT UNSIGNED);INSERT INTO t VALUES(1,'','',0,0)";
const Template update{"write", "UPDATE t SET b=?,s=?,i=?,u=LAST_INSERT_ID(?) WHERE id=?"};

Values values(int i) {
  std::string bytes{"'\"\\?\0\xff", 6};
  return {Bytes{bytes + std::to_string(i)}, Text{"'\xc3\xa4?" + std::to_string(i)},
          std::int64_t{-7} - i, UINT64_MAX - static_cast<unsigned>(i), std::int64_t{1}};
}
Deadline in_time() { return Clock::now() + 60s; }

std::string sent_as(Connection& c) {  // how often prepared, and executed
  const auto r = c.query("look",
                         "SHOW SESSION STATUS WHERE Variable_name IN "
                         "('Com_stmt_execute','Com_stmt_prepare')",
                         in_time());
  if (!r) FAIL(r.error().message);
  return fmt::format("{} {}", r->text(1, 1), r->text(1, 0));
}

}  // namespace

TEST_CASE("a repeated statement writes the same as text, prepared, and executed") {
  Database db{server()};
  db.sql(table);
  const auto c = connect_as_root(server().socket(), db.name());
  const char* const ways[] = {"0 0", "1 1", "1 2", "1 3"};
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    const auto r = c->query("write", update, values(i), "", "", in_time());
    if (!r) FAIL(r.error().message);
    CHECK(r->affected == 1);
    CHECK(r->insert_id == UINT64_MAX - static_cast<unsigned>(i));
    CHECK(r->results == 1);
    CHECK(sent_as(*c) == ways[i]);
    CHECK(db.value("SELECT CONCAT_WS(' ',HEX(b),HEX(s),i,u) FROM t") ==
          fmt::format("27225C3F00FF3{0} 27C3A43F3{0} {1} {2}", i, -7 - i,
                      UINT64_MAX - static_cast<unsigned>(i)));
  }
  // with others it is text
  CHECK(c->query("write", update, values(1), "DO 0;", ";DO 0", in_time())->results == 3);
  CHECK(sent_as(*c) == "1 3");
  // the table changes
  db.sql("ALTER TABLE t ADD COLUMN more INT");
  CHECK(c->query("write", update, values(5), "", "", in_time())->affected == 1);
  // an error of the server is that of the statement, and nothing else
  Values too_long = values(6);
  too_long[0] = Bytes{std::string(301, 'b')};
  const auto refused = c->query("write", update, too_long, "", "", in_time());
  REQUIRE_FALSE(refused);
  CHECK(c->error_number() == 1406);
  CHECK_FALSE(c->broken());
  CHECK(c->query("write", update, values(7), "", "", in_time())->affected == 1);
}

TEST_CASE("a server that prepares no more statements gets them as text") {
  Database db{server()};
  db.sql(table);
  const auto c = connect_as_root(server().socket(), db.name());
  const auto most = db.value("SELECT @@global.max_prepared_stmt_count");
  db.sql("SET GLOBAL max_prepared_stmt_count=0");
  for (int i = 0; i < 4; ++i) {
    const auto r = c->query("write", update, values(i), "", "", in_time());
    CHECK((r && r->affected == 1 && r->results == 1));
  }
  db.sql("SET GLOBAL max_prepared_stmt_count=" + most);
  CHECK(db.value("SELECT i FROM t") == "-10");
  CHECK_FALSE(c->broken());
}

TEST_CASE(
    "a prepared statement without an answer: unknown in time, and no word to the server after it") {
  MariadbServer own;
  Database db{own};
  db.sql(table);
  for (const int before : {1, 2}) {  // it is prepared; it is executed
    CAPTURE(before);
    auto c = connect_as_root(own.socket(), db.name());
    for (int i = 0; i < before; ++i)
      REQUIRE(c->query("write", update, values(i), "", "", in_time()));
    const auto thread = c->facts().thread;
    const Fd kept{::dup(c->fd())};  // as a guard has it
    own.freeze();
    const auto r = c->query("write", update, values(9), "", "", Clock::now() + 300ms);
    REQUIRE_FALSE(r);
    CHECK(r.error().code == Errc::timed_out);
    CHECK(c->broken());
    CHECK_FALSE(c->query("write", update, values(9), "", "", in_time()));  // at once
    c.reset();
    own.thaw();
    // the answer comes, and the session stays: it was told nothing
    CHECK(readable(kept.get(), 60'000));
    CHECK(db.value(fmt::format("SELECT COUNT(*) FROM information_schema.processlist WHERE ID={}",
                               thread)) == "1");
    CHECK(db.value("SELECT i FROM t") == (before == 2 ? "-16" : "-7"));
    db.sql(fmt::format("KILL {}", thread));
  }
}

TEST_CASE(
    "a prepared statement over a connection that ends: unknown, and the connection is broken") {
  Database db{server()};
  db.sql(table);
  const auto c = connect_as_root(server().socket(), db.name());
  for (int i = 0; i < 2; ++i) REQUIRE(c->query("write", update, values(i), "", "", in_time()));
  db.sql(fmt::format("KILL {}", c->facts().thread));
  const auto r = c->query("write", update, values(2), "", "", in_time());
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::timed_out);
  CHECK(c->broken());
  CHECK(db.value("SELECT i FROM t") == "-8");
}

TEST_CASE("a connection that the server ended closes no descriptor of others") {
  Database db{server()};
  db.sql(table);
  for (const int before : {0, 2}) {  // as text, executed
    CAPTURE(before);
    auto c = connect_as_root(server().socket(), db.name());
    for (int i = 0; i < before; ++i)
      REQUIRE(c->query("write", update, values(i), "", "", in_time()));
    const int number = c->fd();
    db.sql(fmt::format("KILL {}", c->facts().thread));
    REQUIRE_FALSE(c->query("write", update, values(2), "", "", in_time()));
    // the library has closed its socket: another thread may have the number by now
    const Fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    CHECK(null.get() == number);
    c.reset();
    struct stat s {};
    REQUIRE(::fstat(null.get(), &s) == 0);
    CHECK(S_ISCHR(s.st_mode));
  }
}

// An administrator's init_connect runs behind the login, for accounts without SUPER.
TEST_CASE("the server's own character sets change no value, and no name of a lock") {
  Database db{server()};
  db.sql(table);
  const auto set = GENERATE("character_set_client=latin1", "character_set_connection=latin2",
                            "character_set_connection=utf16");
  CAPTURE(set);
  server().sql(fmt::format("SET GLOBAL init_connect='SET {}'", set));
  server().sql(
      fmt::format("CREATE OR REPLACE USER plain@'%'; GRANT ALL ON {}.* TO plain@'%'", db.name()));
  const auto url = fmt::format("mysql://plain@127.0.0.1:{}/{}", server().port(), db.name());
  const auto a = open_mysql(url, patient(), "get-lock"), b = open_mysql(url, patient(), "get-lock");
  const char* const name = "\xc3\xa4";
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Lease mine = acquire_or_fail(*a, request(key(name), 30s));
    CHECK(db.value("SELECT IS_USED_LOCK(_utf8mb4 x'c3a4') IS NOT NULL") == "1");
    CHECK(kept(a->renew(mine, 30s)));
    CHECK(a->release(mine).value() == Released::yes);
    CHECK(db.value("SELECT IS_USED_LOCK(_utf8mb4 x'c3a4') IS NOT NULL") == "0");
    const Lease held = acquire_or_fail(*b, request(key(name), 30s));
    Request other = request(key(name), 30s);
    other.wait = false;
    CHECK(std::holds_alternative<Busy>(waiter(*a, other)->poll(0us).value()));
    CHECK(b->release(held).value() == Released::yes);
  }
  server().sql("SET GLOBAL init_connect=''");
}
