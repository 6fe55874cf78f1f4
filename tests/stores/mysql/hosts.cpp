// SPDX-License-Identifier: Apache-2.0
// Servers that are unfit, or fit only for some recipes: several that are not a cluster, a read-only
// one, one with a statement-based binary log.
#include <algorithm>
#include <optional>
#include "faults.hpp"
#include "stores/contention.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

const Finding* find(const std::vector<Finding>& all, std::string_view what) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.what == what; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

TEST_CASE(
    "two servers that are not a cluster: no client gets a lock, in whatever order they are named, "
    "and doctor says why") {
  Database db{server()};
  MariadbServer second;
  second.sql("CREATE DATABASE " + db.name());
  const auto url = [&](std::uint16_t a, std::uint16_t b) {
    return fmt::format("mysql://root@127.0.0.1:{},127.0.0.1:{}/{}", a, b, db.name());
  };
  for (const std::string& both :
       {url(server().port(), second.port()), url(second.port(), server().port())}) {
    CAPTURE(both);
    const auto b = open_mysql(both, patient());
    const auto p = waiter(*b, request(key("k"), 30s))->poll(0us);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find("Galera") != std::string::npos);
    const auto found = b->doctor().value();
    REQUIRE(find(found, "cluster"));
    CHECK(find(found, "cluster")->level == Finding::Level::bad);
    CHECK(find(found, "clocks"));
    for (const auto port : {server().port(), second.port()}) {
      CHECK(find(found, fmt::format("read_only of 127.0.0.1:{}", port)));
      CHECK(find(found, fmt::format("clock of 127.0.0.1:{}", port)));
    }
  }
  second.kill();
  const auto alone = open_mysql(url(second.port(), server().port()), patient());
  const auto p = waiter(*alone, request(key("k"), 30s))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::usage);
}

// A server that is read-only for now is asked again until the time is over.
const Settings until_refused = quick(2s, 5s);

TEST_CASE("a read-only server grants and renews nothing, whoever asks, and says why") {
  Database db{server()};
  server().sql(
      "CREATE OR REPLACE USER plain@'%'; GRANT ALL ON *.* TO plain@'%'; REVOKE READ_ONLY ADMIN ON "
      "*.* FROM plain@'%'");
  struct Row {
    const char *recipe, *user;  // root may write there
  };
  for (const auto& [recipe, user] :
       {Row{"lease", "root"}, Row{"lease", "plain"}, Row{"get-lock", "root"},
        Row{"for-update", "root"}, Row{"insert", "root"}, Row{"version", "root"}}) {
    CAPTURE(recipe, user);
    std::string url = url_of(db.url(), db, recipe);
    url.replace(url.find("root@"), 4, user);
    const auto a = open_mysql(url, until_refused, recipe);
    // The server may not have noticed yet that the sessions of the row before are gone.
    release_or_fail(*a, granted_within(*waiter(*a, request(key("k"), 30s))));
    std::optional<Lease> held;
    if (std::string_view{user} == "plain") held = acquire_or_fail(*a, request(key("held"), 60s));
    server().sql("SET GLOBAL read_only=1");
    const auto fresh = open_mysql(url, until_refused, recipe);
    const auto p = waiter(*fresh, request(key("k"), 30s))->poll(0us),
               q = waiter(*a, request(key("k"), 30s))->poll(1s);  // over a session from before
    const Result<Renewal> renewed = held ? a->renew(*held, 60s) : Renewal{Lost{}};
    server().sql("SET GLOBAL read_only=0");
    for (const auto* refused : {&p, &q}) {
      REQUIRE_FALSE(*refused);
      CHECK(refused->error().code == Errc::unavailable);
      CHECK(refused->error().message.find("read-only") != std::string::npos);
    }
    if (!held) continue;
    REQUIRE_FALSE(renewed);
    CHECK(renewed.error().code == Errc::unavailable);
    CHECK(renewed.error().message.find("read-only") != std::string::npos);
    CHECK(kept(a->renew(*held, 60s)));
  }
}

// Without recipe for-update: a server becomes read-only when no statement waits for a row.
TEST_CASE("a server that becomes read-only grants nothing to those who wait, until it writes") {
  Database db{server()};
  for (const char* recipe : {"lease", "get-lock", "insert", "version"}) {
    for (const bool killed : {false, true}) {  // then the waiter logs in meanwhile
      CAPTURE(recipe, killed);
      const auto a = open_mysql(url_of(db.url(), db, recipe), patient(), recipe),
                 b = open_mysql(url_of(db.url(), db, recipe), until_refused, recipe);
      const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
      auto w = waiter(*b, request(key("k"), 60s));
      CHECK(waits(*w, 300ms));
      server().sql("SET GLOBAL read_only=1");
      if (killed) kill_sessions(db);
      const auto released = a->release(lease);
      auto p = w->poll(3s);
      // killed sessions first
      for (int i = 0; i < 3 && !p && p.error().code == Errc::timed_out; ++i) p = w->poll(3s);
      server().sql("SET GLOBAL read_only=0");
      CHECK(released);
      CHECK_FALSE(p);
      if (!p) CHECK(p.error().code == Errc::unavailable);
      if (!p) CHECK(p.error().message.find("read-only") != std::string::npos);
      if (!p) release_or_fail(*b, granted_within(*w));
      else if (const auto* g = std::get_if<Granted>(&*p)) release_or_fail(*b, g->lease);
    }
  }
}

TEST_CASE("a server with a statement-based binary log: all recipes work, and doctor warns") {
  MariadbServer own{{.config = {"log-bin=b", "server-id=7", "binlog_format=STATEMENT"}}};
  Database db{own};
  REQUIRE(db.value("SELECT @@binlog_format") == "STATEMENT");
  REQUIRE(db.sql("SHOW VARIABLES LIKE 'log_bin'").text(1) == "ON");
  for (const char* recipe : {"lease", "get-lock", "for-update", "insert", "version"}) {
    CAPTURE(recipe);
    const std::string url = url_of(db.url(), db, recipe);
    Contention clients{{.open = [&](unsigned) { return open_mysql(url, {}, recipe); },
                        .clients = 3,
                        .ttl = 6s,
                        .seed = Catch::rngSeed()}};
    CHECK(becomes([&] { return clients.grants() >= 9; }, 200s));
    CHECK(clients.violations() == "");
    const auto found = open_mysql(url, {}, recipe)->doctor().value();
    REQUIRE(find(found, "binlog_format"));
    CHECK(find(found, "binlog_format")->level == Finding::Level::warning);
    CHECK(std::none_of(found.begin(), found.end(),
                       [](const Finding& f) { return f.level == Finding::Level::bad; }));
  }
  // What a replica executes must not depend on its being read-only.
  const auto logged = db.sql("SHOW BINLOG EVENTS");
  REQUIRE(logged.rows.size() > 50);
  for (std::size_t i = 0; i < logged.rows.size(); ++i)
    CHECK(logged.text(5, i).find("@@global.read_only") == std::string::npos);
}

TEST_CASE("doctor reports how a server compares lock names") {
  Database db{server()};
  const auto found = open_mysql(url_of(db.url(), db, "get-lock"), {}, "get-lock")->doctor().value();
  REQUIRE(find(found, "names of locks"));
  CHECK(find(found, "names of locks")->seen == "compared with case");
}
