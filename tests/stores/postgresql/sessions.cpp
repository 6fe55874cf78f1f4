// SPDX-License-Identifier: Apache-2.0
// Sessions that end, waiters that are stopped or gone, and changes to the tables by others.
#include <sys/wait.h>
#include <csignal>
#include <fstream>
#include <future>
#include <optional>
#include <vector>
#include "core/text.hpp"
#include "faults.hpp"
#include "postgresql_schema/schema.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("after a renewal over another session the release wakes again") {
  PostgresDatabase db{server()};
  const auto a = open_postgres(db.url(), patient()), b = open_postgres(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  kill_sessions(db);
  REQUIRE(kept(a->renew(lease, 60s)));
  auto w = waiter(*b, request(key("k")));
  auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 60s); });
  const auto sleeping = [&] {
    return db.value("SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND NOT granted");
  };
  REQUIRE(becomes([&] { return sleeping() == "1"; }));
  release_or_fail(*a, lease);
  CHECK(sleeping() == "0");
  polled.get();
}

TEST_CASE("the server ends the session of a waiter whose host acknowledges nothing for a minute") {
  PostgresDatabase db{server()};
  const auto a = open_postgres(db.url(), patient()), b = open_postgres(db.url(), patient());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
  db.sql(
      "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
      "NEW.who=current_setting('tcp_user_timeout'); RETURN NEW; END$$");
  db.sql("CREATE TRIGGER see BEFORE INSERT ON dlock_wait FOR EACH ROW EXECUTE FUNCTION see()");
  auto w = waiter(*b, request(key("k"), 60s));
  REQUIRE(waits(*w, 50ms));
  CHECK(db.value("SELECT who FROM dlock_wait") == "60000");
  release_or_fail(*a, lease);
}

TEST_CASE("a waiter that leaves lets the next one in at once, also out of its sleep") {
  PostgresDatabase db{server()};
  const auto a = open_postgres(db.url(), patient()), b = open_postgres(db.url(), patient()),
             c = open_postgres(db.url(), patient());
  CHECK(once_within(4s, [&] {  // a lost wake-up shows after 5 s
    const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
    auto first = waiter(*b, request(key("k"), 60s)), second = waiter(*c, request(key("k"), 60s));
    REQUIRE(waits(*first, 50ms));
    REQUIRE(waits(*second, 50ms));
    auto polled = std::async(std::launch::async, [&] { return granted_within(*second); });
    CHECK(first->cancel());
    CHECK(db.value("SELECT count(*) FROM dlock_wait") == "1");
    REQUIRE(becomes([&] { return one_sleeps(db); }));
    const Deadline released = Clock::now();
    release_or_fail(*a, lease);
    release_or_fail(*c, polled.get());
    return Clock::now() - released;
  }));
}

TEST_CASE("records that are damaged, or of a newer dlock, are refused and stay") {
  PostgresDatabase db{server()};
  const auto a = open_postgres(db.url(), patient());
  warm_up(*a, 1);
  db.sql("UPDATE dlock_lock SET layout=2");
  auto p = waiter(*a, request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::usage);
  db.sql("UPDATE dlock_lock SET layout=1,state='dlock1 k'||chr(10)||'H what'||chr(10)");
  p = waiter(*a, request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::protocol);
  CHECK(db.value("SELECT state LIKE '%H what%' FROM dlock_lock") == "t");
}

// An error that the server logs is two lines, and a waiter would cause one every 5 s.
TEST_CASE("a wait leaves no line in the server's log, whether it runs out, is left or is granted") {
  PostgresServer own;
  PostgresDatabase db{own};
  const auto lines = [&] {
    std::vector<std::string> found;
    std::ifstream log{own.directory() + "/log"};
    for (std::string line; std::getline(log, line);)
      if (line.find("STATEMENT:") != line.npos || line.find("ERROR:") != line.npos ||
          line.find("FATAL:") != line.npos || line.find("could not") != line.npos)
        found.push_back(line);
    return found;
  };
  for (const char* const recipe : {"lease", "advisory"}) {
    const auto a = open_postgres(db.url(), patient(), recipe),
               b = open_postgres(db.url(), patient(), recipe),
               c = open_postgres(db.url(), patient(), recipe);
    release_or_fail(*a, acquire_or_fail(*a, request(key("k"))));  // makes the table
    const auto before = lines();
    const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
    auto stays = waiter(*b, request(key("k"), 60s)), leaves = waiter(*c, request(key("k"), 60s));
    const auto both_sleep = [&] {
      return waits(*stays, 50ms) && waits(*leaves, 50ms) &&
             sessions(db, "NOT granted").find(',') != std::string::npos;
    };
    REQUIRE(becomes(both_sleep));
    CHECK(waits(*leaves, 6s));  // a statement waits for 5 s
    REQUIRE(becomes(both_sleep));
    CHECK(leaves->cancel());
    CHECK(sessions(db, "NOT granted").find(',') == std::string::npos);
    release_or_fail(*a, lease);
    release_or_fail(*b, granted_within(*stays));
    CHECK(lines() == before);
  }
}

TEST_CASE("rights: what the manual grants is enough, less is refused") {
  for (const bool advisory : {false, true}) {
    const char* const recipe = advisory ? "advisory" : "lease";
    CAPTURE(recipe);
    PostgresDatabase db{server()};
    const auto own = open_postgres(db.url(), patient(), recipe);
    release_or_fail(*own, acquire_or_fail(*own, request(key("k"))));
    const std::string role = "r_" + db.name();
    db.sql("CREATE ROLE " + role + " LOGIN");
    const auto b = open_postgres(
        fmt::format("postgresql://{}@127.0.0.1:{}/{}", role, server().port(), db.name()), patient(),
        recipe);
    const auto p = waiter(*b, request(key("k")))->poll(0us);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::denied);
    const auto rights = [&] {
      const auto found = b->doctor().value();
      for (const auto& f : found)
        if (f.what == "rights") return f.seen;
      return std::string{};
    };
    CHECK(rights().starts_with("missing: SELECT on dlock_"));
    if (advisory) {
      db.sql("GRANT SELECT, INSERT, UPDATE ON dlock_advisory TO " + role);
    } else {
      db.sql("GRANT SELECT, INSERT, UPDATE ON dlock_lock TO " + role);
      db.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON dlock_wait TO " + role);
    }
    CHECK(rights() == "enough");
    const Lease lease = acquire_or_fail(*b, request(key("k"), 30s));
    auto w = waiter(*b, request(key("k"), 30s));
    CHECK(waits(*w, 50ms));
    CHECK(w->cancel());
    release_or_fail(*b, lease);
    db.sql("DROP OWNED BY " + role);
    db.sql("DROP ROLE " + role);
  }
}

TEST_CASE("without the right to make the tables: the SQL for who has it") {
  PostgresDatabase db{server()};
  const std::string role = "r_" + db.name();
  db.sql("CREATE ROLE " + role + " LOGIN");
  const auto b = open_postgres(
      fmt::format("postgresql://{}@127.0.0.1:{}/{}", role, server().port(), db.name()), patient());
  const auto p = waiter(*b, request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::cannot_create);
  CHECK(p.error().message.find("CREATE TABLE IF NOT EXISTS dlock_wait") != std::string::npos);
  db.sql("DROP ROLE " + role);
}

TEST_CASE("waiters of another schema's tables neither delay nor overtake") {
  PostgresDatabase db{server()};
  std::string urls[2];
  for (const char* const schema : {"a", "b"}) {
    const std::string role = fmt::format("{}_{}", schema, db.name());
    db.sql(fmt::format("CREATE ROLE {} LOGIN", role));
    db.sql(fmt::format("CREATE SCHEMA {} AUTHORIZATION {}", schema, role));
    db.sql(fmt::format("ALTER ROLE {} SET search_path={}", role, schema));
    // as an administrator does: dlock makes no tables beside those of another schema
    db.sql(fmt::format("SET search_path={}", schema));
    std::string_view rest = postgresql::schema::lease;
    while (!rest.empty()) db.sql(next_part(rest, ';'));
    db.sql(fmt::format("GRANT ALL ON ALL TABLES IN SCHEMA {} TO {}", schema, role));
    urls[*schema - 'a'] =
        fmt::format("postgresql://{}@127.0.0.1:{}/{}", role, server().port(), db.name());
  }
  struct Crowd {
    Crowd(const std::string& url, const Key& k) {
      for (auto& b : backends) b = open_postgres(url, patient());
      held = acquire_or_fail(*backends[0], request(k, 600s));
      for (std::size_t i = 0; i < 2; ++i) {
        waiters[i] = waiter(*backends[i + 1], request(k, 600s));
        REQUIRE(waits(*waiters[i], 50ms));
      }
    }
    std::unique_ptr<Backend> backends[3];
    std::unique_ptr<Waiter> waiters[2];
    std::optional<Lease> held;
  };
  int tries = 0;
  CHECK(once_within(4s, [&] {  // a lost wake-up shows after 5 s
    db.sql("TRUNCATE a.dlock_wait, b.dlock_wait RESTART IDENTITY");
    const Key k = key(fmt::format("k{}", ++tries));
    Crowd a{urls[0], k}, b{urls[1], k};
    CHECK(db.value("SELECT count(*) FROM a.dlock_wait JOIN b.dlock_wait USING(ticket)") == "2");
    auto last = std::async(std::launch::async, [&] { return granted_within(*b.waiters[1]); });
    release_or_fail(*b.backends[0], *b.held);
    const Lease second = granted_within(*b.waiters[0]);
    CHECK(last.wait_for(300ms) == std::future_status::timeout);
    const Deadline released = Clock::now();
    release_or_fail(*b.backends[1], second);
    last.get();
    const auto took = Clock::now() - released;
    CHECK(waits(*a.waiters[0], 50ms));
    return took;
  }));
}
