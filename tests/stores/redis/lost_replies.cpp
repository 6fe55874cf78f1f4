// SPDX-License-Identifier: Apache-2.0
// A request is carried out and its reply is lost: nothing is granted twice, nothing is left behind.
#include "faults.hpp"
#include "redis_scripts/named_scripts.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("the reply to acquire is lost") {
  using namespace redis::scripts;
  struct Row {
    const char* recipe;
    std::string_view command;
  };
  for (const Row& row :
       {Row{"fair", acquire.sha}, Row{"set", named_set_acquire.sha}, Row{"setnx-expire", "SETNX"},
        Row{"setnx-expire", named_grant.sha}, Row{"getset", named_getset_acquire.sha}})
    for (const bool quietly : {false, true}) {
      CAPTURE(row.recipe, row.command, quietly);
      Proxied p;
      auto backend = open_redis(p.url(), quick(), row.recipe);
      auto watcher = open_redis(p.direct(), {}, row.recipe);
      const Key k = key("acquire");
      // the script is known, the connection warm
      release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
      const Request r = request(k, 600s);
      auto waiter = *backend->enqueue(r);
      const Deadline before = Clock::now();
      p.proxy.lose_reply(std::string{row.command}, quietly);
      const auto first = call_until(lost_one(p), [&] { return waiter->poll(0s); });
      const auto in_force = (**watcher->inspect(k)).holders;
      REQUIRE(in_force.size() == 1);
      // unknown: a repeated request by the same owner shows it
      if (!first) CHECK(first.error().code == Errc::timed_out);
      const Progress known = first ? *first : answer_of(*waiter);
      REQUIRE(std::holds_alternative<Granted>(known));
      const Lease lease = std::get<Granted>(known).lease;
      CHECK(watcher->check(k, lease.token) == Validity::valid);
      CHECK(holders_of(*watcher, k) == 1);
      if (row.command == acquire.sha) {
        CHECK(lease.token == in_force[0].token);  // the grant whose reply was lost
        // The deadline counts from the renewal that proved it, never from the arrival of the reply.
        CHECK(lease.deadline <= lease_end(Clock::now(), r.ttl));
        CHECK(lease.deadline > lease_end(before, r.ttl));
        CHECK(*(**watcher->inspect(k)).holders[0].remaining >= lease.deadline - Clock::now());
      }
      release_or_fail(*backend, lease);
      CHECK(holders_of(*watcher, k) == 0);
      CHECK(waiters_of(*watcher, k) == 0);
    }
}

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

TEST_CASE("the reply to renew is lost") {
  for (const bool quietly : {false, true}) {
    CAPTURE(quietly);
    Proxied p;
    auto backend = open_redis(p.url(), quietly ? quick() : patient());
    const Key k = key("renew");
    const Lease lease = acquire_or_fail(*backend, request(k, 600s));
    CHECK(once_within(quietly ? 800ms : 30s, [&] {
      REQUIRE(kept(renewed(*backend, lease, 600s)));  // the script is known
      p.proxy.lose_reply(std::string{redis::scripts::renew.sha}, quietly);
      const auto began = Clock::now();
      const auto answer = backend->renew(lease, 600s);
      const auto took = Clock::now() - began;
      if (quietly) {  // unknown: an error, which moves no deadline
        REQUIRE_FALSE(answer);
        CHECK(answer.error().code == Errc::timed_out);
      } else {  // tried again within op_timeout
        REQUIRE(kept(answer));
      }
      return took;
    }));
    release_or_fail(*backend, lease);
  }
}

TEST_CASE("the reply to release is lost") {
  for (const bool quietly : {false, true}) {
    CAPTURE(quietly);
    Proxied p;
    auto backend = open_redis(p.url(), quietly ? quick() : patient());
    auto other = open_redis(p.direct());
    const Key k = key("release");
    release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    const Lease lease = acquire_or_fail(*backend, request(k));
    p.proxy.lose_reply(std::string{redis::scripts::release.sha}, quietly);
    const auto release = [&] { return backend->release(lease); };
    if (quietly) {
      const auto unknown = release();
      REQUIRE_FALSE(unknown);
      CHECK(unknown.error().code == Errc::timed_out);
    }
    CHECK(answered(release) == Released::yes);  // our request removed it
    const Lease next = acquire_or_fail(*other, request(k));
    CHECK(answered(release) == Released::was_not_held);     // it has been answered
    CHECK(other->check(k, next.token) == Validity::valid);  // repeating it harms no other
  }
}
