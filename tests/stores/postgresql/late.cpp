// SPDX-License-Identifier: Apache-2.0
// The table "What a late request does" of backends/postgresql/README.md, row by row.
#include <atomic>
#include <future>
#include "stores/sql/scene.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("late: a take of a free key, given up by its sender, grants nothing") {
  Scene s(700ms, GENERATE(0, 2));
  s.proxy.hold("dlock_take");
  auto w = waiter(*s.late, request(key("k"), 60s));
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
  Scene s(60s);
  s.proxy.hold("dlock_take");
  auto w = waiter(*s.late, request(key("k"), 60s));
  auto polled = std::async(std::launch::async, [&] { return w->poll(0us); });
  REQUIRE(s.proxy.holds_one());
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 60s));
  s.proxy.let_go();
  const auto p = polled.get();
  REQUIRE(p);
  CHECK(std::holds_alternative<Waiting>(*p));
  s.check_holds(next);
}

TEST_CASE("late: the grant of a waiter") {
  const Mode mode = GENERATE(Mode::exclusive, Mode::shared);
  Scene s(60s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 60s));
  Request asks = request(key("k"), 60s);
  asks.mode = mode;
  auto w = waiter(*s.late, asks);
  REQUIRE(waits(*w));
  s.proxy.hold("dlock_leave");
  release_or_fail(*s.other, first);
  // The news of the release may take longer than one poll.
  std::atomic<bool> held = false;
  auto polled = std::async(std::launch::async, [&] {
    for (;;) {
      auto p = w->poll(100ms);
      if (held || !p || !std::holds_alternative<Waiting>(*p)) return p;
    }
  });
  const bool one = s.proxy.holds_one();
  held = true;
  REQUIRE(one);
  // An operator lets another in.
  s.db.sql("DELETE FROM dlock_wait");
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 60s));
  s.proxy.let_go();
  const auto p = polled.get();
  REQUIRE(p);
  CHECK_FALSE(std::holds_alternative<Granted>(*p));
  s.check_holds(next);
}

TEST_CASE("late: a renewal, a release, a forced release and a note of a start") {
  const int which = GENERATE(0, 1, 2, 3);
  CAPTURE(which);
  Scene s(60s);
  const Lease first = acquire_or_fail(*s.late, request(key("k"), 60s));
  s.proxy.hold(which == 3 ? "started=" : "dlock_swap");
  auto sent = std::async(std::launch::async, [&] {
    if (which == 0) return lost(s.late->renew(first, 60s));
    if (which == 1) return s.late->release(first) == Released::was_not_held;
    if (which == 2)
      return s.late->force_release(key("k"), std::nullopt).value() == Released::was_not_held ||
             s.other->check(key("k"), first.token).value() == Validity::stale;
    const auto noted = s.late->note_start(first, {.was = {}, .is = RunStart{1, INT64_MAX}});
    return noted == UpdateResult::not_held;
  });
  REQUIRE(s.proxy.holds_one());
  REQUIRE(s.other->release(first) == Released::yes);  // the same owner, from elsewhere
  Lease next = acquire_or_fail(*s.other, request(key("k"), 60s));
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
  Scene s(60s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 60s));
  s.proxy.hold("dlock_swap");
  auto forced =
      std::async(std::launch::async, [&] { return s.late->force_release(key("k"), first.token); });
  REQUIRE(s.proxy.holds_one());
  release_or_fail(*s.other, first);
  const Lease next = acquire_or_fail(*s.other, request(key("k"), 60s));
  s.proxy.let_go();
  CHECK(forced.get().value() == Released::was_not_held);
  s.check_holds(next);
}

TEST_CASE("late: joining the queue leaves a row that is passed and swept") {
  Scene s;
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 600s));
  {
    auto w = waiter(*s.late, request(key("k"), 600s));
    s.proxy.hold("dlock_join");
    CHECK_FALSE(w->poll(0us));
    REQUIRE(s.proxy.holds_one());
  }
  s.late.reset();
  s.arrives();
  CHECK(s.db.value("SELECT count(*) FROM dlock_wait") == "1");
  const auto third = open_postgres(s.db.url(), patient());
  auto w = waiter(*third, request(key("k"), 60s));
  REQUIRE(waits(*w));
  release_or_fail(*s.other, first);
  const Lease next = granted_within(*w);  // long before the ttl of the row ahead
  CHECK(s.db.value("SELECT count(*) FROM dlock_wait") == "0");
  release_or_fail(*third, next);
}

TEST_CASE("late: leaving the queue takes the row of its own owner alone") {
  Scene s;
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 60s));
  auto w = waiter(*s.late, request(key("k"), 60s));
  REQUIRE(waits(*w));
  const auto third = open_postgres(s.db.url(), patient());
  auto behind = waiter(*third, request(key("k"), 60s));
  REQUIRE(waits(*behind));
  s.proxy.hold("DELETE FROM dlock_wait");
  (void)w->cancel();
  REQUIRE(s.proxy.holds_one());
  s.arrives();
  CHECK(s.db.value("SELECT count(*) FROM dlock_wait") == "1");
  release_or_fail(*s.other, first);
  release_or_fail(*third, granted_within(*behind));
}

TEST_CASE("an answer that comes after its sender gave up is not taken for another") {
  Scene s(300ms, 0);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 60s));
  auto w = waiter(*s.late, request(key("k"), 60s));
  s.proxy.stall(Proxy::to_client, true);
  CHECK_FALSE(w->poll(0us));
  s.proxy.stall(Proxy::to_client, false);
  ::usleep(100'000);
  CHECK(waits(*w, 50ms));
  release_or_fail(*s.other, first);
  release_or_fail(*s.late, granted_within(*w));
}
