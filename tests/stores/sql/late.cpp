// SPDX-License-Identifier: Apache-2.0
// Recipe lease: requests and answers that are late or lost.
#include <future>
#include "stores/sql/scene.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("late: a request to stop asks no later holder") {
  Scene s(60s);
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
  CHECK_FALSE(s.other->inspect(key("k")).value()->holders.at(0).revoked);
}

TEST_CASE("late: a release does not end what the same owner has taken again") {
  const int grants = GENERATE(1, 2);
  const bool renewed_before = GENERATE(false, true);
  CAPTURE(grants, renewed_before);
  Scene s(700ms, grants);
  const Request r = request(key("k"), 30s);
  const Lease first = acquire_or_fail(*s.late, r);
  if (renewed_before) REQUIRE(kept(renewed(*s.late, first, 30s)));
  s.proxy.hold(release_of_k(grants));
  CHECK_FALSE(s.late->release(first));
  REQUIRE(s.proxy.holds_one());
  auto w = waiter(*s.late, r);
  const Lease again = granted_within(*w, 30s);
  REQUIRE(kept(renewed(*s.late, again, 30s)));
  s.arrives();
  CHECK(s.other->check(key("k"), r.owner).value() == Validity::valid);
}

TEST_CASE("lost replies: the owner id recognises the grant, the deadline is that of the record") {
  for (const auto& [name, statement, quietly, grants] : lost_grants) {
    CAPTURE(name, statement, quietly, grants);
    Scene s(1500ms, grants);
    constexpr Duration ttl = 60s;  // checks of a busy machine come in time
    const Request r = request(key(name), ttl);
    auto w = waiter(*s.late, r);
    s.proxy.lose_reply(statement, quietly);
    auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 60s); });
    const bool lost_one = s.proxy.lost_one();
    const Deadline written = Clock::now();  // the lease runs from here
    Lease lease = polled.get();
    REQUIRE(lost_one);
    // although recognised 1.5 s later after a dropped reply
    CHECK(lease.deadline <= lease_end(written, ttl));
    CHECK(s.other->check(r.key, r.owner).value() == Validity::valid);
    CHECK(s.other->check(r.key, lease.token).value() == Validity::valid);
    const auto seen = s.other->inspect(r.key).value().value();
    CHECK(seen.holders.size() == 1);
    CHECK(seen.waiters.empty());
    const Renewal answer = renewed(*s.late, lease, ttl);
    REQUIRE(kept(answer));
    lease = std::get<Kept>(answer).lease;  // from here on it knows its deadline
    s.proxy.lose_reply(release_statement, quietly);
    release_or_fail(*s.late, lease);
    CHECK(s.other->check(r.key, r.owner).value() == Validity::stale);
  }
}

TEST_CASE("a reading that arrives long after a wait starts no long lease") {
  Scene s(5s);
  const Lease first = acquire_or_fail(*s.other, request(key("k"), 30s));
  auto w = waiter(*s.late, request(key("k"), 8s));
  REQUIRE(waits(*w));
  auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 60s); });
  REQUIRE(becomes([&] { return one_sleeps(s.db); }));
  ::usleep(300'000);  // so that the lease would show if it counted from before the wait
  s.proxy.stall(Proxy::to_client, true);  // the answer to the wait comes late
  const Deadline held = Clock::now();
  release_or_fail(*s.other, first);
  REQUIRE(becomes([&] { return !one_sleeps(s.db); }));  // it is awake, and reads
  const Deadline free_at = Clock::now();
  ::usleep(4'000'000);
  s.proxy.stall(Proxy::to_client, false);
  const Lease lease = polled.get();
  // no longer than the server's record, and that began when the key was read
  const Duration rest = recorded_rest_of_k(s.db);
  CHECK(lease.deadline <= later(Clock::now(), rest));
  CHECK(lease.deadline <= lease_end(free_at + 3s, 8s));
  CHECK(lease.deadline >= lease_end(held - 150ms, 8s));  // nor does it count from before the wait
}

TEST_CASE("a stopped server grants nothing to clients that gave up meanwhile") {
  Server own;
  Db db{own};
  warm_up(*open_recipe(db.url()), 1);
  auto a = open_recipe(db.url(), quick(700ms));
  warm_up(*a, GENERATE(0, 2));
  own.freeze();
  {
    auto w = waiter(*a, request(key("k"), 30s));
    CHECK_FALSE(w->poll(0us));
    (void)w->cancel();
  }
  a.reset();
  own.thaw();
  const auto b = open_recipe(db.url(), patient());
  // the server has read the request once it has noticed that its sender is gone
  REQUIRE(becomes([&] { return count_sessions(db) == "1"; }));  // the asking one
  CHECK(b->inspect(key("k")).value()->holders.empty());
}
