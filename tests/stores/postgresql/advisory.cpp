// SPDX-License-Identifier: Apache-2.0
// Recipe advisory: a lock that belongs to a session, and that other programs take, too.
#include <sys/stat.h>
#include <future>
#include "faults.hpp"
#include "postgresql/advisory/advisory_lock.hpp"
#include "support/certificates.hpp"
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

std::unique_ptr<Backend> open_advisory(const std::string& url, const Settings& s = patient()) {
  return open_postgres(url, s, "advisory");
}
bool busy(Backend& b, std::string_view name) {
  Request r = request(key(name), 30s);
  r.wait = false;
  return std::holds_alternative<Busy>(waiter(b, r)->poll(0us).value());
}

}  // namespace

TEST_CASE("advisory: the locks of other programs, of each kind, both ways") {
  const auto [kind, name, in_sql] = GENERATE(table<std::string, std::string, std::string>(
      {{"hashtext", "nightly", "hashtext('nightly')"},
       {"hashtext", "käse", "hashtext('käse')"},
       {"hashtextextended", "nightly", "hashtextextended('nightly',0)"},
       {"int8", "42", "42"},
       {"int8", "-9223372036854775808", "'-9223372036854775808'::bigint"},
       {"int4,int4", "7,-5", "7,-5"},
       {"int4,int4", "-2147483648,2147483647", "'-2147483648'::int,2147483647"},
       {"crc32", "nightly", "267906906,0"},  // Zlib.crc32 & 0x7fffffff
       {"crc32", "123456789", "1274296614,0"}}));
  CAPTURE(kind, name);
  PostgresDatabase db{server()};
  const auto b = open_advisory(db.url() + "?key=" + kind);
  db.sql("SELECT pg_advisory_lock(" + in_sql + ")");
  CHECK(busy(*b, name));
  auto seen = b->inspect(key(name)).value().value();
  CHECK(seen.notes == std::vector<std::string>{"held by another program"});
  REQUIRE(seen.holders.size() == 1);
  CHECK(seen.holders[0].token == 0);
  auto w = waiter(*b, request(key(name), 30s));
  CHECK(waits(*w, 100ms));
  db.sql("SELECT pg_advisory_unlock(" + in_sql + ")");
  const Lease lease = granted_within(*w);
  CHECK(db.value("SELECT pg_try_advisory_lock(" + in_sql + ")") == "f");
  CHECK(b->check(key(name), lease.token).value() == Validity::valid);
  CHECK(b->inspect(key(name)).value()->holders[0].token == lease.token);
  CHECK(b->names().value() == std::vector<std::string>{name});
  CHECK(b->release(lease).value() == Released::yes);
  CHECK(db.value("SELECT pg_try_advisory_lock(" + in_sql + ")") == "t");
  // A reader of another program, too.
  db.sql("SELECT pg_advisory_unlock_all()");
  db.sql("SELECT pg_advisory_lock_shared(" + in_sql + ")");
  CHECK(busy(*b, name));
}

TEST_CASE("advisory: keys that are no numbers are refused before the server is asked") {
  for (const auto& [kind, name] : {std::pair{"int8", "x"},
                                   {"int8", ""},
                                   {"int8", "9223372036854775808"},
                                   {"int8", "1.0"},
                                   {"int4,int4", "1"},
                                   {"int4,int4", "1,"},
                                   {"int4,int4", "1,2,3"},
                                   {"int4,int4", "2147483648,1"}}) {
    CAPTURE(kind, name);
    CHECK_FALSE(postgresql::lock_value(kind, name));
  }
  const auto b = open_advisory("postgresql://127.0.0.1:1/d?key=int8");
  const auto refused = b->enqueue(request(key("x")));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().message ==
        "key 'x': with ?key=int8 it is a whole number of 64 bits, as 42");
}

TEST_CASE("advisory: what its URL may say") {
  const auto wrong = [](const std::string& items, const Traits& traits) {
    const auto r = postgresql::prepare(*Url::parse("postgresql://h/d" + items), traits, Settings{});
    return r ? "" : r.error().message;
  };
  const auto& [lease, advisory] = postgresql::recipes;
  for (const auto kind : {"hashtext", "hashtextextended", "int8", "int4,int4", "crc32"})
    CHECK(wrong(fmt::format("?key={}", kind), advisory).empty());
  CHECK(wrong("?key=md5", advisory) ==
        "backend URL 'postgresql://h/d?key=md5': key is 'md5'; allowed is hashtext, "
        "hashtextextended, int8, int4,int4, crc32");
  CHECK(wrong("?key=int8", lease).find("nothing but with recipe advisory") != std::string::npos);
  CHECK(wrong("?wake=poll", advisory).find("nothing but with recipe lease") != std::string::npos);
}

TEST_CASE("advisory: a heartbeat counts only in a session that has the lock") {
  PostgresDatabase db{server()};
  const auto a = open_advisory(db.url());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"))));
  // as if a pooler had given our statements to another session
  db.sql(
      "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN PERFORM pg_advisory_unlock_all(); RETURN NULL; END$$");
  db.sql("CREATE TRIGGER away AFTER INSERT OR UPDATE ON dlock_advisory EXECUTE FUNCTION away()");
  const Granted g = take_all(*a, request(key("k"), 30s));
  CHECK(lost(a->renew(g.lease, 30s)));
}

TEST_CASE("advisory: the session of a holder is not ended sooner because of its network") {
  PostgresDatabase db{server()};
  const auto a = open_advisory(db.url());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"))));
  db.sql("CREATE TABLE seen(what text)");
  db.sql(
      "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO seen "
      "SELECT string_agg(name||'='||setting,' ' ORDER BY name) FROM pg_settings WHERE name IN "
      "('idle_session_timeout','tcp_keepalives_idle','tcp_user_timeout'); RETURN NULL; END$$");
  db.sql("CREATE TRIGGER see AFTER INSERT OR UPDATE ON dlock_advisory EXECUTE FUNCTION see()");
  for (const auto& [ttl, seen] :
       {std::pair<Duration, const char*>{
            1'500'500us, "idle_session_timeout=1501 tcp_keepalives_idle=2 tcp_user_timeout=0"},
        {2000h, "idle_session_timeout=0 tcp_keepalives_idle=32767 tcp_user_timeout=0"}}) {
    release_or_fail(*a, take_all(*a, request(key("k"), ttl)).lease);
    CHECK(db.value("SELECT what FROM seen") == seen);
    db.sql("DELETE FROM seen");
  }
}

TEST_CASE("advisory: an error of a heartbeat does not end the lock") {
  PostgresDatabase db{server()};
  const std::string role = "r_" + db.name();
  db.sql("CREATE ROLE " + role + " LOGIN");
  db.sql("GRANT CREATE ON SCHEMA public TO " + role);
  const auto a = open_advisory(
      fmt::format("postgresql://{}@127.0.0.1:{}/{}", role, server().port(), db.name()));
  const Granted g = take_all(*a, request(key("k"), 30s));
  db.sql("REVOKE SELECT ON pg_locks FROM PUBLIC");
  const auto r = a->renew(g.lease, 30s);
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::denied);
  db.sql("GRANT SELECT ON pg_locks TO PUBLIC");
  CHECK(kept(a->renew(g.lease, 30s)));
  CHECK(a->release(g.lease).value() == Released::yes);
  db.sql("DROP OWNED BY " + role);
  db.sql("DROP ROLE " + role);
}

TEST_CASE("advisory: tokens rise, though the server's clock went back") {
  PostgresDatabase db{server()};
  const auto a = open_advisory(db.url());
  const Lease first = acquire_or_fail(*a, request(key("k")));
  release_or_fail(*a, first);
  db.sql("UPDATE dlock_advisory SET fence=fence+3600000000");
  CHECK(acquire_or_fail(*a, request(key("k"))).token == first.token + 3'600'000'001);
}

TEST_CASE("advisory: a waiter sleeps in the server, for longer than one statement waits") {
  PostgresDatabase db{server()};
  const auto a = open_advisory(db.url()), b = open_advisory(db.url());
  CHECK(once_within(4s, [&] {  // one statement waits for 5 s
    const Lease first = acquire_or_fail(*a, request(key("k"), 60s));
    auto w = waiter(*b, request(key("k"), 60s));
    const auto before = b->counters().requests;
    CHECK(waits(*w, 6s));
    CHECK(b->counters().requests - before <= 10);
    CHECK(sessions(db, "NOT granted").find(',') == std::string::npos);
    auto polled = std::async(std::launch::async, [&] { return granted_within(*w); });
    const Deadline released = Clock::now();
    release_or_fail(*a, first);
    const Lease second = polled.get();
    const auto took = Clock::now() - released;
    // taken by the wait and once more, released once
    CHECK(b->release(second).value() == Released::yes);
    CHECK(db.value("SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND "
                   "database=(SELECT oid FROM pg_database WHERE datname=current_database())") ==
          "0");
    return took;
  }));
}

TEST_CASE("advisory: who leaves the queue leaves nothing, also what it was granted meanwhile") {
  PostgresDatabase db{server()};
  const auto a = open_advisory(db.url()), b = open_advisory(db.url());
  for (const bool granted_meanwhile : {false, true}) {
    CAPTURE(granted_meanwhile);
    const Lease first = acquire_or_fail(*a, request(key("k"), 30s));
    auto w = waiter(*b, request(key("k"), 30s));
    REQUIRE(becomes([&] { return waits(*w, 50ms) && !sessions(db, "NOT granted").empty(); }));
    if (granted_meanwhile) release_or_fail(*a, first);
    CHECK(w->cancel());
    CHECK(sessions(db, "NOT granted").empty());
    if (!granted_meanwhile) release_or_fail(*a, first);
    // the server may end that session a moment later
    release_or_fail(*a, granted_within(*waiter(*a, request(key("k"), 30s))));
  }
}

TEST_CASE("advisory: as long as another process has the socket, the server is told no goodbye") {
  const bool tls = GENERATE(false, true);
  CAPTURE(tls);
  TestDirectory dir;
  const Authority good{dir.path(), "good"};
  const auto files = good.issue("right", "IP:127.0.0.1");
  ::chmod(dir.path().c_str(), 0755);
  ::chmod(files.cert.c_str(), 0644);
  ::chmod(files.key.c_str(), 0600);
  PostgresServer::give(files.key);
  PostgresServer own{{.config = {"ssl=on", "ssl_cert_file='" + files.cert + "'",
                                 "ssl_key_file='" + files.key + "'"}}};
  const auto url = own.url() + (tls ? "?sslmode=require" : "?sslmode=disable");
  auto a = open_advisory(url);
  const auto b = open_advisory(url);
  const Granted g = take_all(*a, request(key("k"), 30s));
  CHECK(own.value("SELECT bool_or(ssl) FROM pg_stat_ssl") == (tls ? "t" : "f"));
  Fd other{::dup(g.hold_fd)};
  a.reset();
  ::usleep(300'000);
  REQUIRE(busy(*b, "k"));
  CHECK(b->check(key("k"), g.lease.token).value() == Validity::valid);
  other.reset();
  CHECK(becomes([&] { return !busy(*b, "k"); }));
}

TEST_CASE("advisory: forced release of a session that no record names") {
  PostgresDatabase db{server()};
  const auto a = open_advisory(db.url()), b = open_advisory(db.url());
  const Granted g = take_all(*a, request(key("k"), 30s));
  db.sql("DELETE FROM dlock_advisory");  // it could be anyone's
  CHECK(b->force_release(key("k"), std::nullopt).value() == Released::yes);
  CHECK(lost(a->renew(g.lease, 30s)));
}

// ---- late requests -----------------------------------------------------------------------------

TEST_CASE("late: advisory: lock and record are one statement of one session") {
  PostgresDatabase db{server()};
  Proxy proxy{server().port()};
  const auto b = open_advisory(db.url());
  release_or_fail(*b, acquire_or_fail(*b, request(key("k"))));
  const auto a = open_advisory(through(proxy, db), patient());
  const bool ended = GENERATE(true, false);  // or it arrives in a session that lives
  proxy.hold("dlock_take_advisory");
  auto w = waiter(*a, request(key("k"), 30s));
  auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
  REQUIRE(proxy.holds_one());
  if (ended)
    db.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='dlock' "
        "AND datname=current_database() AND pid<>pg_backend_pid() AND query LIKE "
        "'%client_connection_check%'");
  const Lease next = acquire_or_fail(*b, request(key("k"), 30s));
  proxy.let_go();
  const auto p = polled.get();
  CHECK_FALSE((p && std::holds_alternative<Granted>(*p)));
  CHECK(kept(b->renew(next, 30s)));
  CHECK(b->check(key("k"), next.token).value() == Validity::valid);
}

TEST_CASE("late: advisory: a take that its sender has given up ends with its session") {
  PostgresDatabase db{server()};
  Proxy proxy{server().port()};
  const auto b = open_advisory(db.url());
  const Lease first = acquire_or_fail(*b, request(key("k")));
  release_or_fail(*b, first);
  auto a = open_advisory(through(proxy, db), quick(300ms));
  proxy.hold("dlock_take_advisory");
  CHECK_FALSE(waiter(*a, request(key("k"), 30s))->poll(0us));
  REQUIRE(proxy.holds_one());
  proxy.let_go();
  REQUIRE(proxy.answered());
  CHECK(becomes([&] { return !busy(*b, "k"); }));
}

TEST_CASE("late: advisory: the end of a session, of a forced release, ends no later holder") {
  PostgresDatabase db{server()};
  Proxy proxy{server().port()};
  const auto b = open_advisory(db.url()), c = open_advisory(db.url());
  const auto late = open_advisory(through(proxy, db), patient());
  const Lease first = acquire_or_fail(*b, request(key("k"), 30s));
  proxy.hold("pg_terminate_backend");
  auto forced =
      std::async(std::launch::async, [&] { return late->force_release(key("k"), std::nullopt); });
  REQUIRE(proxy.holds_one());
  release_or_fail(*b, first);
  const Lease next = acquire_or_fail(*c, request(key("k"), 30s));
  proxy.let_go();
  CHECK(forced.get().value() == Released::yes);  // what was meant is gone
  CHECK(kept(c->renew(next, 30s)));
  CHECK(c->release(next).value() == Released::yes);
}
