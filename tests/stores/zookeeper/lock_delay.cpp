// SPDX-License-Identifier: Apache-2.0
// A lock-delay is a session that outlasts its lease: what ends it, and what does not.
#include <poll.h>
#include <unistd.h>
#include "faults.hpp"
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/session/session_backend.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

Request delayed(Duration ttl, Duration delay) {
  Request r = ask(ttl);
  r.lock_delay = delay;
  return r;
}

// Whether the key is free for a request that does not wait.
bool is_free(const std::string& url, const char* recipe = "sequential") {
  const auto backend = open_zookeeper(url, {}, recipe);
  Request once = ask(10s);
  once.wait = false;
  const auto w = backend->enqueue(once).value();
  const bool granted = std::holds_alternative<Granted>(w->poll(0s).value());
  if (granted) CHECK(w->cancel());
  return granted;
}

}  // namespace

TEST_CASE("lock-delay: an operator sees, revokes and removes the holder, not who waits behind it") {
  const std::string url = place("?prefix=p/");
  auto holder = open_zookeeper(url);
  const auto waiter = open_zookeeper(url), admin = open_zookeeper(url);
  const Lease held = acquire_or_fail(*holder, delayed(1s, 60s));
  const auto w = waiter->enqueue(ask(10s)).value();
  CHECK(waits(*w));
  holder.reset();  // unreleased: its session goes on
  CHECK(waits(*w));

  const auto view = admin->inspect(key()).value();
  REQUIRE(view->holders.size() == 1);
  CHECK(view->holders[0].token == held.token);
  CHECK(view->holders[0].remaining == 61s);
  CHECK(view->waiters.size() == 1);
  CHECK(admin->check(key(), held.token).value() == Validity::valid);
  CHECK(admin->revoke(key()).value() == Released::yes);
  CHECK(waits(*w));
  CHECK(admin->force_release(key(), held.token).value() == Released::yes);

  const Lease next = take(*w);
  CHECK(admin->check(key(), held.token).value() == Validity::stale);
  const auto after = waiter->renew(next, 10s).value();
  REQUIRE(std::holds_alternative<Kept>(after));
  CHECK_FALSE(std::get<Kept>(after).revoked);
  release_or_fail(*waiter, next);
}

TEST_CASE("lock-delay: a release in time ends it, one behind the lease's end does not") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    const std::string url = place("?prefix=p/");
    const auto holder = open_zookeeper(url, {}, recipe);
    release_or_fail(*holder, acquire_or_fail(*holder, delayed(30s, 60s)));
    CHECK(is_free(url, recipe));
    const Lease late = acquire_or_fail(*holder, delayed(1s, 60s));
    CHECK(late.deadline < Clock::now() + 1s);  // though the session lasts much longer
    while (Clock::now() < late.deadline) ::poll(nullptr, 0, 5);
    CHECK(holder->release(late).value() == Released::was_not_held);
    CHECK(holder->release(late).value() == Released::was_not_held);
    CHECK_FALSE(is_free(url, recipe));
    // A new attempt of the same Backend has a session of its own, and waits, too.
    Request next = delayed(1s, 60s);
    next.wait = false;
    CHECK(std::holds_alternative<Busy>((*holder->enqueue(next))->poll(0s).value()));
  }
}

TEST_CASE("lock-delay: detaching a lock for its job's sake leaves none behind") {
  const std::string url = place("?prefix=p/");
  auto holder = open_zookeeper(url);
  const Lease l = acquire_or_fail(*holder, delayed(30s, 60s));
  const auto longer = holder->detach(l, 31s);  // nothing has changed then
  REQUIRE_FALSE(longer);
  CHECK(longer.error().code == Errc::usage);
  CHECK(kept(holder->renew(l, 30s)));
  CHECK(kept(holder->detach(l, 1s)));
  holder.reset();
  CHECK_FALSE(is_free(url));
  const auto waiter = open_zookeeper(url);
  const auto w = waiter->enqueue(ask(10s)).value();
  take(*w);
}

TEST_CASE("lock-delay: a session longer than the servers allow is refused, with what fits") {
  const auto backend = open_zookeeper(place("?prefix=p/"));
  const auto p = (*backend->enqueue(delayed(90s, 60s)))->poll(1s);  // at most 2 minutes
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::usage);
  CHECK(p.error().message.find("--lock-delay up to 30s") != std::string::npos);
  release_or_fail(*backend, acquire_or_fail(*backend, delayed(90s, 30s)));
}

TEST_CASE("the answer to the watch on a granted node raises no alarm, a change before it does") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    const std::string url = place("?prefix=p/");
    const auto holder = open_zookeeper(url, {}, recipe), admin = open_zookeeper(url, {}, recipe);
    const auto w = holder->enqueue(ask(10s)).value();
    const Granted g = take_all(*w);
    REQUIRE(g.alarm_fd >= 0);
    pollfd alarm{g.alarm_fd, POLLIN, 0};
    REQUIRE(::poll(&alarm, 1, 30000) == 1);  // the grant has not waited for it
    while (::poll(&alarm, 1, 0) == 1) REQUIRE_FALSE(holder->alarmed(g.lease));
    CHECK(admin->revoke(key()).value() == Released::yes);
    REQUIRE(::poll(&alarm, 1, 30000) == 1);
    CHECK(holder->alarmed(g.lease));
    const auto told = holder->renew(g.lease, 10s).value();
    REQUIRE(std::holds_alternative<Kept>(told));
    CHECK(std::get<Kept>(told).revoked);
    release_or_fail(*holder, g.lease);
  }
}

TEST_CASE("a lock that was released leaves no watch in its session") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    const auto backend = open_zookeeper(place("?prefix=p/"), {}, recipe);
    release_or_fail(*backend, acquire_or_fail(*backend, ask(10s)));
    zookeeper::Session& s =
        **dynamic_cast<zookeeper::SessionBackend&>(*backend).reader();  // the same session
    const zookeeper::WatchId next = s.new_watch();
    REQUIRE(next > 1);
    for (zookeeper::WatchId w = 1; w < next; ++w) CHECK_FALSE(s.fired(w));
  }
}
