// SPDX-License-Identifier: Apache-2.0
// The table "What a late request does" of backends/postgresql/README.md, row by row; and replies
// that are lost.
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

struct Scene {
  PostgresDatabase db{server()};
  Proxy proxy{server().port()};
  std::unique_ptr<Backend> late, other;

  explicit Scene(Duration op_timeout = 700ms, int grants = 1) {
    other = open_postgres(db.url(), calm());
    warm_up(*other, 1);
    late = open_postgres(through(proxy, db), quick(op_timeout));
    warm_up(*late, grants);
  }
  // What was held back arrives, and has its effect.
  void arrives() {
    proxy.let_go();
    REQUIRE(proxy.answered());
  }
  void check_holds(const Lease& lease) {
    CHECK(kept(other->renew(lease, 30s)));
    CHECK(other->check(key("k"), lease.token).value() == Validity::valid);
    const auto seen = other->inspect(key("k")).value().value();
    CHECK(seen.holders.size() == 1);
    CHECK(seen.fence == lease.token);
  }
};

}  // namespace

TEST_CASE("late: a take of a free key, given up by its sender, grants nothing") {
  Scene s(700ms, GENERATE(0, 2));
  s.proxy.hold("dlock_take");
  auto w = waiter(*s.late, request(key("k"), 30s));
  CHECK_FALSE(w->poll(0us));
  REQUIRE(s.proxy.holds_one());
  const auto fence = s.other->inspect(key("k")).value()->fence;
  ::usleep(800'000);
  s.arrives();
  const auto seen = s.other->inspect(key("k")).value();
  CHECK(seen->holders.empty());
  CHECK(seen->fence == fence);
}

TEST_CASE("late: a take of a key that another has taken meanwhile") {
  Scene s(5s);
  s.proxy.hold("dlock_take");
  auto w = waiter(*s.late, request(key("k"), 30s));
  auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
  REQUIRE(s.proxy.holds_one());
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 30s));
  s.proxy.let_go();
  const auto p = polled.get();
  REQUIRE(p);
  CHECK(std::holds_alternative<Waiting>(*p));
  s.check_holds(next);
}

TEST_CASE("late: the grant of a waiter") {
  const Mode mode = GENERATE(Mode::exclusive, Mode::shared);
  Scene s(5s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  Request asks = request(key("k"), 30s);
  asks.mode = mode;
  auto w = waiter(*s.late, asks);
  REQUIRE(waits(*w));
  s.proxy.hold("dlock_leave");
  release_or_fail(*s.other, first);
  auto polled = std::async(std::launch::async, [&] { return w->poll(100ms); });
  REQUIRE(s.proxy.holds_one());
  // An operator lets another in.
  s.db.sql("DELETE FROM dlock_wait");
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 30s));
  s.proxy.let_go();
  const auto p = polled.get();
  REQUIRE(p);
  CHECK_FALSE(std::holds_alternative<Granted>(*p));
  s.check_holds(next);
}

TEST_CASE("late: a renewal, a release, a forced release and a note of a start") {
  const int which = GENERATE(0, 1, 2, 3);
  CAPTURE(which);
  Scene s(5s);
  const Lease first = acquire_or_fail(*s.late, request(key("k"), 30s));
  s.proxy.hold(which == 3 ? "started=" : "dlock_swap");
  auto sent = std::async(std::launch::async, [&] {
    if (which == 0) return lost(s.late->renew(first, 60s));
    if (which == 1) return s.late->release(first) == Released::was_not_held;
    if (which == 2)
      return s.late->force_release(key("k"), std::nullopt).value() == Released::was_not_held ||
             s.other->check(key("k"), first.token).value() == Validity::stale;
    const auto noted = s.late->note_start(first, {.was = {}, .is = Start{1, INT64_MAX}});
    return noted == Noted::not_held;
  });
  REQUIRE(s.proxy.holds_one());
  REQUIRE(s.other->release(first) == Released::yes);  // the same owner, from elsewhere
  Lease next = acquire_or_fail(*s.other, request(key("k"), 30s));
  if (which == 2) {  // a token is named: the next holder is not meant
    s.proxy.let_go();
    (void)sent.get();
    return;  // without a token the repeated request may mean the next holder
  }
  s.proxy.let_go();
  CHECK(sent.get());
  s.check_holds(next);
  CHECK(s.db.value("SELECT started IS NULL FROM dlock_lock WHERE name='dlock:k'") == "t");
}

TEST_CASE("late: a forced release of a token hits no later one") {
  Scene s(5s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  s.proxy.hold("dlock_swap");
  auto forced =
      std::async(std::launch::async, [&] { return s.late->force_release(key("k"), first.token); });
  REQUIRE(s.proxy.holds_one());
  release_or_fail(*s.other, first);
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 30s));
  s.proxy.let_go();
  CHECK(forced.get().value() == Released::was_not_held);
  s.check_holds(next);
}

TEST_CASE("late: a request to stop asks no later holder") {
  Scene s(5s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  s.proxy.hold("SET revoked=");
  auto asked = std::async(std::launch::async, [&] { return s.late->revoke(key("k")); });
  REQUIRE(s.proxy.holds_one());
  release_or_fail(*s.other, first);
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 30s));
  s.proxy.let_go();
  CHECK(asked.get().value() == Released::was_not_held);
  const auto renewed = s.other->renew(next, 30s);
  REQUIRE(kept(renewed));
  CHECK_FALSE(std::get<Kept>(*renewed).revoked);
}

TEST_CASE("late: joining the queue leaves a row that is passed and swept") {
  Scene s;
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  {
    auto w = waiter(*s.late, request(key("k"), 30s));
    s.proxy.hold("dlock_join");
    CHECK_FALSE(w->poll(0us));
    REQUIRE(s.proxy.holds_one());
  }
  s.late.reset();
  s.arrives();
  CHECK(s.db.value("SELECT count(*) FROM dlock_wait") == "1");
  const auto third = open_postgres(s.db.url(), calm());
  auto w = waiter(*third, request(key("k"), 30s));
  REQUIRE(waits(*w));
  const auto before = Clock::now();
  release_or_fail(*s.other, first);
  const Lease next = granted_within(*w, 10s);
  CHECK(Clock::now() - before < 8s);
  CHECK(s.db.value("SELECT count(*) FROM dlock_wait") == "0");
  release_or_fail(*third, next);
}

TEST_CASE("late: leaving the queue takes the row of its own owner alone") {
  Scene s;
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  auto w = waiter(*s.late, request(key("k"), 30s));
  REQUIRE(waits(*w));
  const auto third = open_postgres(s.db.url(), calm());
  auto behind = waiter(*third, request(key("k"), 30s));
  REQUIRE(waits(*behind));
  s.proxy.hold("DELETE FROM dlock_wait");
  (void)w->cancel();
  REQUIRE(s.proxy.holds_one());
  s.arrives();
  CHECK(s.db.value("SELECT count(*) FROM dlock_wait") == "1");
  release_or_fail(*s.other, first);
  release_or_fail(*third, granted_within(*behind, 10s));
}

TEST_CASE("late: a release does not end what the same owner has taken again") {
  Scene s;
  const Request r = request(key("k"), 30s);
  const Lease first = acquire_or_fail(*s.late, r);
  s.proxy.hold("dlock_swap");
  CHECK_FALSE(s.late->release(first));
  REQUIRE(s.proxy.holds_one());
  auto w = waiter(*s.late, r);
  const Lease again = granted_within(*w, 10s);
  REQUIRE(kept(s.late->renew(again, 30s)));
  s.arrives();
  CHECK(s.other->check(key("k"), r.owner).value() == Validity::valid);
}

TEST_CASE("lost replies: the owner id recognises the grant, the deadline is that of the record") {
  struct Kind {
    const char *key, *statement;
    bool quietly;
  };
  for (const auto& [name, statement, quietly] :
       {Kind{"k", "dlock_take", false}, Kind{"k", "dlock_take", true},
        Kind{"new", "dlock_leave", false}, Kind{"q", "dlock_leave", true}}) {
    CAPTURE(name, statement, quietly);
    Scene s(1500ms);
    const Request r = request(key(name), 10s);
    auto w = waiter(*s.late, r);
    s.proxy.lose_reply(statement, quietly);
    auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 10s); });
    const bool lost_one = s.proxy.lost_one();
    const Deadline written = Clock::now();  // the lease runs from here
    Lease lease = polled.get();
    REQUIRE(lost_one);
    CHECK(lease.deadline <= lease_end(written, 10s));
    CHECK(s.other->check(r.key, r.owner).value() == Validity::valid);
    CHECK(s.other->check(r.key, lease.token).value() == Validity::valid);
    const auto seen = s.other->inspect(r.key).value().value();
    CHECK(seen.holders.size() == 1);
    CHECK(seen.waiters.empty());
    const auto renewed = s.late->renew(lease, 10s);
    REQUIRE(kept(renewed));
    s.proxy.lose_reply("dlock_swap", quietly);
    lease = std::get<Kept>(*renewed).lease;
    auto released = s.late->release(lease);
    if (!released) released = s.late->release(lease);
    REQUIRE(released);
    CHECK(*released == Released::yes);
    CHECK(s.other->check(r.key, r.owner).value() == Validity::stale);
  }
}

TEST_CASE("a reading that arrives long after a wait starts no long lease") {
  Scene s(5s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  auto w = waiter(*s.late, request(key("k"), 3s));
  REQUIRE(waits(*w));
  auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 10s); });
  ::usleep(300'000);
  s.proxy.stall(Proxy::to_client, true);  // the answer to the wait comes late
  release_or_fail(*s.other, first);
  const Deadline free_at = Clock::now();
  ::usleep(1'500'000);
  s.proxy.stall(Proxy::to_client, false);
  const Lease lease = polled.get();
  const auto row = s.db.value(
      "SELECT split_part(substring(state from 'H .*'),' ',9)::bigint - "
      "(date_part('epoch',clock_timestamp())*1e6)::bigint FROM dlock_lock WHERE name='dlock:k'");
  // no longer than the server's record, and that began when the key was read
  CHECK(lease.deadline <= later(Clock::now(), Duration{std::stoll(row)} + 50ms));
  CHECK(lease.deadline <= lease_end(free_at + 300ms, 3s));
}

TEST_CASE("an answer that comes after its sender gave up is not taken for another") {
  Scene s(300ms, 0);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  auto w = waiter(*s.late, request(key("k"), 30s));
  s.proxy.stall(Proxy::to_client, true);
  CHECK_FALSE(w->poll(0us));
  s.proxy.stall(Proxy::to_client, false);
  ::usleep(100'000);
  CHECK(waits(*w, 50ms));
  release_or_fail(*s.other, first);
  release_or_fail(*s.late, granted_within(*w, 10s));
}
