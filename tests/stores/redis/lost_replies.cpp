// SPDX-License-Identifier: Apache-2.0
// A request is carried out and its reply is lost: nothing is granted twice, nothing is left behind.
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("the reply to acquire is lost and the caller gives up") {
  Proxied p;
  auto backend = open_redis(p.url(), quick());
  auto watcher = open_redis(p.direct());
  const Key k = key("given-up");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  auto waiter = *backend->enqueue(request(k));
  p.proxy.lose_reply(std::string{redis::scripts::acquire.sha}, true);
  REQUIRE_FALSE(call_until(lost_one(p), [&] { return waiter->poll(0s); }));
  CHECK(holders_of(*watcher, k) == 1);  // granted, though its owner does not know
  REQUIRE(becomes([&] { return waiter->cancel().has_value(); }));
  CHECK(holders_of(*watcher, k) == 0);
  REQUIRE(becomes([&] { return waiter->cancel().has_value(); }));  // repeating it is harmless
}

TEST_CASE("the reply to a place in the queue is lost") {
  Proxied p;
  auto holder = open_redis(p.direct());
  const Key k = key("queued");
  const Lease held = acquire_or_fail(*holder, request(k));
  auto backend = open_redis(p.url(), quick());
  auto waiter = *backend->enqueue(request(k));
  p.proxy.lose_reply(std::string{redis::scripts::acquire.sha}, true);
  CHECK_FALSE(call_until(lost_one(p), [&] { return waiter->poll(0s); }));
  const Progress again = answer_of(*waiter);
  REQUIRE(std::holds_alternative<Waiting>(again));
  CHECK(std::get<Waiting>(again).ahead == 0);
  CHECK(waiters_of(*holder, k) == 1);
  CHECK(holder->release(held) == Released::yes);
  CHECK(granted_within(*waiter).token > held.token);
}

TEST_CASE("the wake-up is lost") {
  Proxied p;
  auto holder = open_redis(p.direct());
  const Key k = key("wake");
  auto backend = open_redis(p.url(), quick());
  CHECK(once_within(redis::patience_of(10s), [&] {
    const Lease held = acquire_or_fail(*holder, request(k));
    auto waiter = *backend->enqueue(request(k, 10s));
    p.proxy.lose_reply("BLPOP");
    REQUIRE(becomes([&] {
      REQUIRE(waits(*waiter, 100ms));
      return info_field(p.server, "clients", "blocked_clients") == "1";
    }));
    CHECK(holder->release(held) == Released::yes);
    const auto began = Clock::now();
    const Lease next = granted_within(*waiter);
    const auto took = Clock::now() - began;
    release_or_fail(*backend, next);
    return took;
  }));
}
