// SPDX-License-Identifier: Apache-2.0
// Recipe lease: what breaks between us and the server, and what somebody does to its tables.
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("the holder's session is killed: nobody gets the lock before the lease ends, and the holder keeps it") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick());
  const Request r = request(key("k"), 1500ms);
  const Lease lease = acquire_or_fail(*a, r);
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  kill_sessions(db);
  // The head gets the lost name at once, and sees a lease.
  for (const Deadline until = lease.deadline - 700ms; Clock::now() < until;) {
    const auto p = w->poll(50ms);
    if (p) CHECK_FALSE(std::holds_alternative<Granted>(*p));
  }
  const auto renewed = a->renew(lease, 1500ms);
  REQUIRE(kept(renewed));
  const Deadline end = std::get<Kept>(*renewed).lease.deadline;
  const Lease next = granted_within(*w, 10s);
  CHECK(Clock::now() >= end);
  CHECK(next.token > lease.token);
  CHECK(lost(a->renew(lease, 1500ms)));
}

TEST_CASE("a released lock is not waited for although the holder's name was lost") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  kill_sessions(db);
  (void)w->poll(300ms);
  CHECK(a->release(lease).value() == Released::yes);
  const Deadline released = Clock::now();
  granted_within(*w, 10s);
  CHECK(Clock::now() - released < 2s);
}

TEST_CASE("a waiter's session is killed: it comes back in time to its place") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick()), c = open_mysql(db.url(), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto first = waiter(*b, request(key("k"))), second = waiter(*c, request(key("k")));
  REQUIRE(waits(*first, 20ms));
  REQUIRE(waits(*second, 20ms));
  kill_sessions(db);
  for (int i = 0; i < 3; ++i) (void)first->poll(20ms), (void)second->poll(20ms);
  a->release(lease).value();
  const Lease one = granted_within(*first, 10s);
  CHECK(waits(*second, 50ms));
  b->release(one).value();
  CHECK(granted_within(*second, 10s).token > one.token);
}

TEST_CASE("the first waiter is gone: the next one gets the lock") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), c = open_mysql(db.url(), quick());
  auto b = open_mysql(db.url(), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto first = waiter(*b, request(key("k"))), second = waiter(*c, request(key("k")));
  REQUIRE(waits(*first, 20ms));
  REQUIRE(waits(*second, 20ms));
  first.reset();
  b.reset();
  a->release(lease).value();
  granted_within(*second, 5s);
}

TEST_CASE("the first waiter is stopped, its session lives: the next one passes it, and it queues again") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick()), c = open_mysql(db.url(), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto stopped = waiter(*b, request(key("k"))), second = waiter(*c, request(key("k")));
  REQUIRE(waits(*stopped, 20ms));
  REQUIRE(waits(*second, 20ms));
  a->release(lease).value();
  const Deadline released = Clock::now();
  const Lease got = granted_within(*second, 20s);
  CHECK(Clock::now() - released > 2900ms);  // it had its time
  CHECK(Clock::now() - released < 12s);
  CHECK(waits(*stopped, 20ms));
  c->release(got).value();
  CHECK(granted_within(*stopped, 10s).token > got.token);
}

TEST_CASE("a server that dies and comes back has kept the lock") {
  MariadbServer own{{.on_disk = true}};
  Database db{own};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  own.kill();
  const auto while_dead = a->renew(lease, 30s);
  REQUIRE_FALSE(while_dead);
  CHECK(retryable(while_dead.error().code));
  CHECK_FALSE(w->poll(50ms).has_value());
  own.start();
  CHECK(kept(a->renew(lease, 30s)));
  for (int i = 0; i < 3; ++i) CHECK(waits(*w, 20ms));
  CHECK(a->release(lease).value() == Released::yes);
  CHECK(granted_within(*w, 10s).token > lease.token);
}

TEST_CASE("a server that stands still: unknown, within the time for it; and nothing is lost when it goes on") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick(300ms)), b = open_mysql(db.url(), quick(300ms));
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  auto w = waiter(*b, request(key("k")));
  REQUIRE(waits(*w, 20ms));
  server().freeze();
  const Deadline asked = Clock::now();
  const auto r = a->renew(lease, 30s);
  const auto took = Clock::now() - asked;
  server().thaw();
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::timed_out);
  CHECK(took < 3s);
  CHECK(kept(a->renew(lease, 30s)));
  CHECK(a->release(lease).value() == Released::yes);
  granted_within(*w, 10s);
}

TEST_CASE("who decided on a version that has passed meanwhile has not written") {
  Database db{server()};
  struct Kind {
    const char *recipe, *table, *grant, *statement;
    Mode mode = Mode::exclusive;
  };
  for (const auto& [recipe, table, grant, statement, mode] :
       {Kind{"lease", "dlock_lock", "t.state=s.state", "UPDATE dlock_lock l SET state="},  // reads and writes at once
        Kind{"lease", "dlock_lock", "t.state=s.state", "UPDATE dlock_lock SET state=", Mode::shared},
        Kind{"version", "dlock_version", "t.owner=s.owner,t.until=s.until", "UPDATE dlock_version"}}) {
    CAPTURE(recipe, mode);
    const auto a = open_mysql(db.url(), {}, recipe), b = open_mysql(db.url(), {}, recipe);
    const Lease first = acquire_or_fail(*b, request(key("k"), 60s));
    db.sql(fmt::format("CREATE OR REPLACE TABLE saved_{0} AS SELECT * FROM {0}", table));
    b->release(first).value();
    // It reads that the key is free, and its UPDATE waits for this transaction, in which somebody else is granted the key.
    db.sql(fmt::format("START TRANSACTION; SELECT * FROM {} FOR UPDATE", table));
    Request asks = request(key("k"), 60s);
    asks.mode = mode;
    auto w = waiter(*a, asks);
    auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
    const auto writing = fmt::format(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE '{}%' AND ID<>CONNECTION_ID()", statement);
    for (const Deadline until = Clock::now() + 5s; db.value(writing) == "0" && Clock::now() < until;) ::usleep(1000);
    REQUIRE(db.value(writing) == "1");
    db.sql(fmt::format("UPDATE {0} t JOIN saved_{0} s USING(name) SET {1},t.version=t.version+1; COMMIT", table, grant));
    const auto p = polled.get();
    REQUIRE(p);
    CHECK(std::holds_alternative<Waiting>(*p));
    CHECK(b->check(key("k"), first.token).value() == Validity::valid);
    CHECK(w->cancel());
    b->release(first).value();
  }
}

TEST_CASE("replies that get lost: the owner id recognises the grant, the deadline counts from the first reading") {
  Database db{server()};
  Proxy proxy{server().port()};
  struct Kind {
    const char *key, *statement;
    bool quietly;
  };
  for (const auto& [name, statement, quietly] :
       {Kind{"warm", "UPDATE dlock_lock l SET state=", false},  // free: one statement
        Kind{"warm", "UPDATE dlock_lock l SET state=", true},
        Kind{"k", "UPDATE dlock_lock SET state=", false},  // unknown: that one is in vain
        Kind{"q", "UPDATE dlock_lock SET state=", true}}) {
    CAPTURE(statement, quietly);
    const auto a = open_mysql(through(proxy, db), quick(1500ms)), other = open_mysql(db.url(), quick());
    release_or_fail(*a, acquire_or_fail(*a, request(key("warm"))));
    const Request r = request(key(name), 10s);
    auto w = waiter(*a, r);
    proxy.lose_reply(statement, quietly);
    auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 10s); });
    const bool lost_one = proxy.lost_one();
    const Deadline written = Clock::now();  // since then the lease runs
    Lease lease = polled.get();
    REQUIRE(lost_one);
    CHECK(lease.deadline <=
          lease_end(written, 10s));  // although it was recognised only after 1.5 s, where the answer just did not come
    CHECK(other->check(r.key, r.owner).value() == Validity::valid);
    CHECK(other->check(r.key, lease.token).value() == Validity::valid);
    const auto seen = other->inspect(r.key).value().value();
    CHECK(seen.holders.size() == 1);
    CHECK(seen.waiters.empty());
    const auto renewed = a->renew(lease, 10s);
    REQUIRE(kept(renewed));
    lease = std::get<Kept>(*renewed).lease;  // from here on it knows how long it has
    proxy.lose_reply("UPDATE dlock_lock", quietly);
    auto released = a->release(lease);
    if (!released) released = a->release(lease);
    REQUIRE(released);
    CHECK(*released == Released::yes);
    CHECK(other->check(r.key, r.owner).value() == Validity::stale);
  }
}

TEST_CASE("a request that comes when its sender has given it up is granted to nobody") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(through(proxy, db), quick(700ms)), b = open_mysql(db.url(), quick());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
  proxy.delay(Proxy::to_server, 2s);
  auto w = waiter(*a, request(key("k"), 30s));
  const auto session = fmt::format("SELECT COUNT(*) FROM information_schema.processlist WHERE DB='{}'", db.name());
  const auto sessions = db.value(session);
  CHECK_FALSE(w->poll(0us));
  proxy.delay(Proxy::to_server, 0us);
  release_or_fail(*a, granted_within(*w, 10s));  // over another session
  const auto fence = b->inspect(key("k")).value()->fence;
  for (const Deadline late = Clock::now() + 3s; Clock::now() < late && db.value(session) > sessions;) ::usleep(5000);
  ::usleep(2'500'000);  // it is not seen to come, as it must change nothing
  const auto seen = b->inspect(key("k")).value();
  CHECK(seen->holders.empty());
  CHECK(seen->fence == fence);
}

TEST_CASE("a stopped server grants nothing to those who gave up meanwhile") {
  MariadbServer own;
  Database db{own};
  auto a = open_mysql(db.url(), quick(700ms));
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
  own.freeze();
  {
    auto w = waiter(*a, request(key("k"), 30s));
    CHECK_FALSE(w->poll(0us));
    (void)w->cancel();
  }
  a.reset();
  own.thaw();
  const auto b = open_mysql(db.url(), quick());
  for (const Deadline until = Clock::now() + 5s; Clock::now() < until;) {  // until the server has read what was sent to it
    if (db.value(fmt::format("SELECT COUNT(*) FROM information_schema.processlist WHERE DB='{}'", db.name())) <= "2") break;
    ::usleep(5000);
  }
  CHECK(b->inspect(key("k")).value()->holders.empty());
}

TEST_CASE("a release that comes late does not end what the same owner has taken again") {
  for (const bool renewed_before : {false, true}) {
    CAPTURE(renewed_before);
    Database db{server()};
    Proxy proxy{server().port()};
    const auto a = open_mysql(through(proxy, db), quick(700ms)), b = open_mysql(db.url(), quick());
    release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
    const Request r = request(key("k"), 30s);
    const Lease first = acquire_or_fail(*a, r);
    if (renewed_before) REQUIRE(kept(a->renew(first, 30s)));
    proxy.delay(Proxy::to_server, 2s);
    CHECK_FALSE(a->release(first));
    proxy.delay(Proxy::to_server, 0us);
    auto w = waiter(*a, r);
    const Lease again = granted_within(*w, 10s);
    REQUIRE(kept(a->renew(again, 30s)));
    ::usleep(2'500'000);  // it is not seen to come, as it must change nothing
    CHECK(b->check(key("k"), r.owner).value() == Validity::valid);
  }
}

TEST_CASE("a lease that another process made shorter: its end is its end, and the lock-delay is kept") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick()), c = open_mysql(db.url(), quick());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
  Request r = request(key("k"), 30s);
  r.lock_delay = 20s;
  const Lease lease = acquire_or_fail(*a, r);
  REQUIRE(kept(b->renew(lease, 300ms)));
  for (const Deadline until = Clock::now() + 5s; Clock::now() < until;) {
    if (c->check(key("k"), lease.token).value() == Validity::stale) break;
    ::usleep(5000);
  }
  CHECK(a->release(lease).value() == Released::was_not_held);
  auto w = waiter(*c, request(key("k"), 30s));
  CHECK(waits(*w, 50ms));
}

TEST_CASE("several keys of one owner: when the session that had its name is lost, another takes it") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick());
  const Lease held = acquire_or_fail(*b, request(key("k2"), 60s));
  const Request one = request(key("k1"), 60s);
  Request two = one;
  two.key = key("k2");
  acquire_or_fail(*a, one);
  auto w = waiter(*a, two);
  REQUIRE(waits(*w, 50ms));
  const std::string who = fmt::format("SELECT COALESCE(IS_USED_LOCK('dl:{}'),0)", one.owner.hex());
  db.sql("KILL " + db.value(who));
  bool taken = false;
  for (const Deadline until = Clock::now() + 15s; !taken && Clock::now() < until; taken = db.value(who) != "0")
    (void)w->poll(100ms);
  CHECK(taken);
  b->release(held).value();
  granted_within(*w, 10s);
}

TEST_CASE("a token near the end of its numbers does not fall") {
  Database db{server()};
  const auto a = open_mysql(db.url(), quick());
  release_or_fail(*a, acquire_or_fail(*a, request(key("k"), 30s)));
  db.sql("UPDATE dlock_lock SET fence=9223372036854775807");
  CHECK(acquire_or_fail(*a, request(key("k"), 30s)).token == 9223372036854775808U);
}

TEST_CASE("a lost reply to the joining of the queue makes no second place") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto holder = open_mysql(db.url()), a = open_mysql(through(proxy, db), quick());
  const Lease held = acquire_or_fail(*holder, request(key("k"), 30s));
  auto w = waiter(*a, request(key("k")));
  proxy.lose_reply("INSERT INTO dlock_wait");
  for (int i = 0; i < 5; ++i) (void)w->poll(20ms);
  REQUIRE(proxy.lost_one());
  CHECK(db.value("SELECT COUNT(*) FROM dlock_wait") == "1");
  holder->release(held).value();
  granted_within(*w, 10s);
}

TEST_CASE("cut, silent and refused connections") {
  Database db{server()};
  Proxy proxy{server().port()};
  const auto a = open_mysql(through(proxy, db), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  proxy.cut();
  CHECK(kept(a->renew(lease, 30s)));
  proxy.stall(Proxy::to_client, true);
  const Deadline before = Clock::now();
  const auto r = a->renew(lease, 30s);
  CHECK(Clock::now() - before < 4s);
  CHECK_FALSE(r);
  proxy.stall(Proxy::to_client, false);
  CHECK(kept(a->renew(lease, 30s)));
  proxy.refuse(true);
  proxy.cut();
  const auto refused = a->renew(lease, 30s);
  REQUIRE_FALSE(refused);
  CHECK(retryable(refused.error().code));
  proxy.refuse(false);
  proxy.blackhole(true);
  const auto fresh = open_mysql(through(proxy, db), quick());
  const Deadline asked = Clock::now();
  auto w = waiter(*fresh, request(key("other")));
  const auto p = w->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(Clock::now() - asked < 5s);
  proxy.blackhole(false);
  CHECK(kept(a->renew(lease, 30s)));
}

TEST_CASE("a read-only server grants nothing, and says why") {
  Database db{server()};
  server().sql("CREATE OR REPLACE USER plain@'%'; GRANT ALL ON *.* TO plain@'%'; REVOKE READ_ONLY ADMIN ON *.* FROM plain@'%'");
  const std::string url = fmt::format("mysql://plain@127.0.0.1:{}/{}", server().port(), db.name());
  const auto a = open_mysql(url, quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  server().sql("SET GLOBAL read_only=1");
  const auto r = a->renew(lease, 30s);
  auto w = waiter(*a, request(key("other")));
  const auto p = w->poll(0us);
  server().sql("SET GLOBAL read_only=0");
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::unavailable);
  CHECK(r.error().message.find("1290") != std::string::npos);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(kept(a->renew(lease, 30s)));
}

TEST_CASE("somebody deletes the row, or the tables: the holder is told, and the next token is greater") {
  Database db{server()};
  for (const char* statement : {"DELETE FROM dlock_lock", "DROP TABLE dlock_lock, dlock_wait"}) {
    CAPTURE(statement);
    const auto a = open_mysql(db.url(), quick()), b = open_mysql(db.url(), quick());
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

TEST_CASE("rights that are taken away in the middle: denied, and nothing is forgotten") {
  Database db{server()};
  acquire_or_fail(*open_mysql(db.url()), request(key("first")));  // makes the tables
  server().sql(
      fmt::format("CREATE OR REPLACE USER least@'%'; GRANT SELECT,INSERT,UPDATE,DELETE ON {0}.dlock_wait TO least@'%';"
                  "GRANT SELECT,INSERT,UPDATE ON {0}.dlock_lock TO least@'%'",
                  db.name()));
  const auto a = open_mysql(fmt::format("mysql://least@127.0.0.1:{}/{}", server().port(), db.name()), quick());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  server().sql(fmt::format("REVOKE UPDATE ON {}.dlock_lock FROM least@'%'", db.name()));
  const auto r = a->renew(lease, 30s);
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::denied);
  server().sql(fmt::format("GRANT UPDATE ON {}.dlock_lock TO least@'%'", db.name()));
  CHECK(kept(a->renew(lease, 30s)));
  CHECK(a->release(lease).value() == Released::yes);
}

TEST_CASE("without the right to make tables the error tells the SQL") {
  Database db{server()};
  server().sql(fmt::format("CREATE OR REPLACE USER poor@'%'; GRANT SELECT,INSERT,UPDATE,DELETE ON {}.* TO poor@'%'", db.name()));
  const auto a = open_mysql(fmt::format("mysql://poor@127.0.0.1:{}/{}", server().port(), db.name()), quick());
  auto w = waiter(*a, request(key("k")));
  const auto p = w->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::cannot_create);
  CHECK(p.error().message.find("CREATE TABLE IF NOT EXISTS dlock_lock") != std::string::npos);
  CHECK(p.error().message.find('\n') == std::string::npos);
  const auto wrong = open_mysql(fmt::format("mysql://poor@127.0.0.1:{}/nosuch", server().port()), quick());
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
  const auto a = open_mysql(db.url(), quick());
  auto w = waiter(*a, request(key("k")));
  const auto p = w->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("max_connections") != std::string::npos);
  all.clear();
  granted_within(*w, 10s);
}

TEST_CASE("40 waiters on one key, more than the server's search for deadlocks is deep") {
  Database db{server()};
  const auto holder = open_mysql(db.url());
  const Lease held = acquire_or_fail(*holder, request(key("k"), 60s));
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 40; ++i) {
    backends.push_back(open_mysql(db.url()));
    waiters.push_back(waiter(*backends.back(), request(key("k"), 60s)));
    REQUIRE(waits(*waiters.back(), 1ms));
  }
  std::vector<int> order;
  std::vector<std::future<void>> all;
  for (int i = 40; i-- > 0;)
    all.push_back(std::async(std::launch::async, [&, i] {
      const Lease l = granted_within(*waiters[static_cast<std::size_t>(i)], 60s);
      order.push_back(i);
      backends[static_cast<std::size_t>(i)]->release(l).value();
    }));
  holder->release(held).value();
  for (auto& one : all) one.get();
  REQUIRE(order.size() == 40);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("--once-per: the start is noted with the lease, and never without") {
  Database db{server()};
  const auto a = open_mysql(db.url()), b = open_mysql(db.url());
  const Lease lease = acquire_or_fail(*a, request(key("k"), 30s));
  CHECK_FALSE(a->starts(key("k")).value().last);
  const auto now = a->starts(key("k")).value().now;
  CHECK(a->note_start(lease, now, 1h).value() == Validity::valid);
  CHECK(b->starts(key("k")).value().last == now);
  CHECK(a->note_start({key("k"), Owner::random()}, now + 1, 1h).value() == Validity::stale);
  CHECK(b->starts(key("k")).value().last == now);
  CHECK(kept(a->renew(lease, 30s)));
  a->release(lease).value();
  CHECK(a->note_start(lease, now + 1, 1h).value() == Validity::stale);
  CHECK(b->starts(key("k")).value().last == now);
  const Lease next = acquire_or_fail(*b, request(key("k"), 30s));
  CHECK(b->note_start(next, std::nullopt, 1h).value() == Validity::valid);
  CHECK_FALSE(b->starts(key("k")).value().last);
  CHECK(b->note_start(next, now, 1ms).value() == Validity::valid);
  for (const Deadline until = later(Clock::now(), 5s); Clock::now() < until && b->starts(key("k")).value().last;) ::usleep(1000);
  CHECK_FALSE(b->starts(key("k")).value().last);  // dropped
}
