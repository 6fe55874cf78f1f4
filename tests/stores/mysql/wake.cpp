// SPDX-License-Identifier: Apache-2.0
// Recipe lease: an uncontended key is acquired and released without a wake-up, and no waiter misses
// the release. The numbers are those of the argument in lease_table.hpp; each step of an
// interleaving is a call of LeaseTable in its own session.
#include <atomic>
#include <future>
#include <random>
#include "faults.hpp"
#include "mysql/lease/lease_table.hpp"
#include "mysql_schema/schema.hpp"

using namespace dlock;
using namespace dlock::mysql;
using namespace dlock::test;

namespace {

template <class T>
T must(Result<T> r) {
  if (!r) FAIL(r.error().message);
  return std::move(*r);
}
Deadline soon() { return Clock::now() + 60s; }

// A contender for key "k" with its own session.
struct Party {
  explicit Party(Database& db) : connection(connect_as_root(server().socket(), db.name())) {}

  LeaseTable::Decision request(bool untried = true) {
    LeaseTable::Attempt a{.name = "k",
                          .key = "k",
                          .request = {.owner = owner, .ttl = 60'000'000},
                          .untried = untried,
                          .first = first};
    first = false;
    auto out = must(table.acquire(*connection, a, soon()));
    if (std::holds_alternative<LockState::Granted>(out.answer)) written = out.written;
    return out;
  }
  bool release() { return must(table.release(*connection, "k", owner, &written, soon())); }

  LeaseTable table;
  std::unique_ptr<Connection> connection;
  Owner owner = Owner::random();
  SqlWrittenRow written;
  bool first = true;
};

bool granted(const LeaseTable::Decision& o) {
  return std::holds_alternative<LockState::Granted>(o.answer);
}
std::string free_lock(Database& db, const std::string& name) {
  return db.value(fmt::format("SELECT IS_FREE_LOCK('{}')", name));
}
void join_by_hand(Database& db) {
  db.sql(
      fmt::format("INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) "
                  "VALUES('k','{}','X',1,0,0,'')",
                  Owner::random().hex()));
}
void prepare(Database& db) {
  db.sql(schema::lease);
  Party p{db};
  REQUIRE(granted(p.request()));
  REQUIRE(p.release());
}

}  // namespace

TEST_CASE(
    "1: a waiter marked the row before the holder releases: it wakes, and has another wake lock "
    "next time") {
  Database db{server()};
  prepare(db);
  Party h{db}, v{db};
  REQUIRE(granted(h.request()));
  const std::string wake_lock = h.written.wake;
  CHECK(db.value("SELECT wake FROM dlock_lock") == wake_lock);
  CHECK(free_lock(db, wake_lock) == "0");
  const auto waits = v.request();
  REQUIRE_FALSE(granted(waits));
  CHECK(waits.target.lock == wake_lock);
  CHECK(db.value("SELECT waiters FROM dlock_lock") == "1");
  CHECK(h.release());
  CHECK(free_lock(db, wake_lock) == "1");  // a level, not an edge: a later waiter gets it, too
  REQUIRE(granted(v.request()));
  CHECK(db.value("SELECT waiters FROM dlock_lock") == "0");
  CHECK(v.release());
  h.owner = Owner::random();
  REQUIRE(granted(h.request()));
  CHECK(h.written.wake != wake_lock);
  CHECK(free_lock(db, wake_lock) == "1");
}

TEST_CASE("1: a release that finds another version wakes when it is written, and not before") {
  Database db{server()};
  prepare(db);
  Party h{db}, v{db};
  REQUIRE(granted(h.request()));
  const std::string wake_lock = h.written.wake;
  REQUIRE_FALSE(granted(v.request()));
  db.sql("UPDATE dlock_lock SET version=version+1");  // as a note of a start does
  CHECK(h.release());
  CHECK(free_lock(db, wake_lock) == "0");  // so no statement before that release has woken anybody
  REQUIRE(h.table.release_locks(*h.connection, "k", h.owner, wake_lock, true, soon()).has_value());
  CHECK(free_lock(db, wake_lock) == "1");
  REQUIRE(granted(v.request()));
}

TEST_CASE(
    "2: released before a waiter marked the row: no wake-up, and its next read finds a free key") {
  Database db{server()};
  prepare(db);
  Party h{db}, v{db};
  REQUIRE(granted(h.request()));
  const std::string wake_lock = h.written.wake;
  join_by_hand(db);  // a row without a mark: its owner has not read yet
  const auto before = h.connection->exchanges();
  CHECK(h.release());
  CHECK(h.connection->exchanges() == before + 1);
  CHECK(free_lock(db, wake_lock) == "0");
  db.sql("DELETE FROM dlock_wait; UPDATE dlock_lock SET waiters=1");
  CHECK(granted(v.request()));
}

TEST_CASE(
    "3: the mark is cleared by a grant alone in the queue, but not if a waiter joined while it "
    "waited for the row") {
  Database db{server()};
  prepare(db);
  Party w{db};
  db.sql("UPDATE dlock_lock SET waiters=1");
  REQUIRE(granted(w.request()));
  CHECK(db.value("SELECT CONCAT(waiters,wake) FROM dlock_lock") == "0");
  CHECK(w.release());

  db.sql("UPDATE dlock_lock SET waiters=1");
  Party c{db};
  auto other = connect_as_root(server().socket(), db.name());
  must(other->query("test", "START TRANSACTION; SELECT * FROM dlock_lock FOR UPDATE", soon()));
  auto clearing = std::async(std::launch::async, [&] { return c.request(false); });
  const std::string writes = fmt::format(
      "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE 'UPDATE dlock_lock l "
      "SET state=%' AND DB='{}'",
      db.name());
  REQUIRE(one_waits_for_a_row(db));
  REQUIRE(db.value(writes) != "0");
  join_by_hand(db);
  must(other->query("test", "COMMIT", soon()));
  REQUIRE(granted(clearing.get()));
  CHECK(db.value("SELECT waiters FROM dlock_lock") == "1");
}

TEST_CASE("4: a waiter that reads no mark writes it") {
  Database db{server()};
  prepare(db);
  Party h{db}, v{db};
  REQUIRE(granted(h.request()));
  REQUIRE_FALSE(granted(v.request()));
  db.sql("UPDATE dlock_lock SET waiters=0");
  REQUIRE_FALSE(granted(v.request(false)));
  CHECK(db.value("SELECT waiters FROM dlock_lock") == "1");
}

TEST_CASE("5: the holder continues in another session: waiters wait for that session's name") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 60s)));
  CHECK(once_within(4s, [&] {  // a lost wake-up shows after 5 s
    const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
    CHECK_FALSE(db.value("SELECT wake FROM dlock_lock").empty());
    kill_sessions(db);
    auto w = waiter(*b, request(key("k"), 60s));
    REQUIRE(waits(*w, 50ms));
    REQUIRE(kept(a->renew(lease, 60s)));
    CHECK(db.value("SELECT wake FROM dlock_lock").empty());
    CHECK(free_lock(db, hold_name(lease.owner)) == "0");
    return granted_behind(*w, *b, [&] { CHECK(a->release(lease).value() == Released::yes); });
  }));
}

TEST_CASE("a lock removed by force: its holder wakes the waiter when it notices") {
  Database db{server()};
  const auto a = open_mysql(db.url(), patient()), b = open_mysql(db.url(), patient());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 60s)));
  CHECK(once_within(4s, [&] {
    const Lease lease = acquire_or_fail(*a, request(key("k"), 60s));
    REQUIRE_FALSE(db.value("SELECT wake FROM dlock_lock").empty());
    auto w = waiter(*b, request(key("k"), 60s));
    REQUIRE(waits(*w, 50ms));
    return granted_behind(*w, *b, [&] {
      CHECK(b->force_release(key("k"), lease.token).value() == Released::yes);
      CHECK(lost(a->renew(lease, 60s)));
    });
  }));
}

TEST_CASE(
    "a ticket drawn first and committed last: its row stays when the later one is granted, and it "
    "is granted, too") {
  Database db{server()};
  prepare(db);
  Party h{db}, slow{db}, quick_one{db};
  REQUIRE(granted(h.request()));
  db.sql(
      fmt::format("CREATE TRIGGER slow AFTER INSERT ON dlock_wait FOR EACH ROW SET "
                  "@x=IF(NEW.owner='{}',GET_LOCK('t:{}',60),0)",
                  slow.owner.hex(), db.name()));
  db.sql(fmt::format("DO GET_LOCK('t:{}',0)", db.name()));
  auto joining = std::async(std::launch::async, [&] { return slow.request(); });
  const std::string inserts = fmt::format(
      "SELECT COUNT(*) FROM information_schema.processlist WHERE STATE='User lock' AND DB='{}'",
      db.name());
  REQUIRE(becomes([&] { return db.value(inserts) == "1"; }));
  REQUIRE_FALSE(granted(quick_one.request()));
  const auto ticket = [&](const Owner& o) {
    return std::stoll(
        db.value(fmt::format("SELECT ticket FROM dlock_wait WHERE owner='{}'", o.hex())));
  };
  const auto later_one = ticket(quick_one.owner);
  CHECK(h.release());
  auto asks = std::async(std::launch::async, [&] { return quick_one.request(); });
  const std::string deletes = fmt::format(
      "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE 'DELETE w FROM%' AND "
      "DB='{}'",
      db.name());
  // once granted, it deletes the rows of dead waiters, and waits for the uncommitted row
  REQUIRE(one_waits_for_a_row(db));
  REQUIRE(db.value(deletes) != "0");
  db.sql(fmt::format("DO RELEASE_LOCK('t:{}')", db.name()));
  REQUIRE(granted(asks.get()));
  REQUIRE_FALSE(granted(joining.get()));
  CHECK(ticket(slow.owner) < later_one);
  CHECK(quick_one.release());
  CHECK(granted(slow.request(false)));
}

TEST_CASE("a waiter that comes at any moment of short holds is woken by their end") {
  Database db{server()};
  const auto a = open_mysql(db.url()), b = open_mysql(db.url());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 60s)));
  std::mt19937 random{Catch::rngSeed()};
  std::atomic<bool> stop{false};
  auto holds = std::async(std::launch::async, [&] {
    std::mt19937 own{Catch::rngSeed() + 1};
    while (!stop) {
      const Lease l = granted_within(*waiter(*a, request(key("k"), 60s)));
      if (own() % 2) ::usleep(static_cast<useconds_t>(own() % 2000));
      release_or_fail(*a, l);
      ::usleep(static_cast<useconds_t>(own() % 1000));
    }
  });
  auto pauses = std::async(std::launch::async, [&] {  // the longest one of the machine
    auto longest = Clock::duration{};
    for (const auto c = connect_as_root(server().socket(), db.name()); !stop; ::usleep(20'000)) {
      const Deadline asked = Clock::now();
      must(c->query("test", "DO 0", Clock::now() + 60s));
      longest = std::max(longest, Clock::now() - asked);
    }
    return longest;
  });
  int slow = 0;
  for (int i = 0; i < 400; ++i) {
    const Deadline asked = Clock::now();
    const Lease l = granted_within(*waiter(*b, request(key("k"), 60s)));
    slow += Clock::now() - asked > 4s;  // a lost wake-up shows after 5 s
    release_or_fail(*b, l);
    ::usleep(static_cast<useconds_t>(random() % 2000));
  }
  stop = true;
  holds.get();
  CHECK((slow == 0 || pauses.get() > 1s));
}
