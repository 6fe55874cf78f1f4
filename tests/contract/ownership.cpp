// SPDX-License-Identifier: Apache-2.0
// Renew, release and forced release; the owner decides.
#include <poll.h>
#include <algorithm>
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

CONTRACT_CASE("release needs the owner, and may be repeated") {
  const auto backend = store.open({}), other = store.open({});
  const Granted g = take(*backend, request("k"));
  Lease foreign = g.lease;
  foreign.owner = Owner::random();
  CHECK(other->release(foreign).value() == Released::was_not_held);
  CHECK(backend->release(foreign).value() == Released::was_not_held);
  CHECK_FALSE(free_now(*other, request("k")));
  CHECK(backend->release(g.lease).value() == Released::yes);
  CHECK(backend->release(g.lease).value() == Released::was_not_held);
  CHECK(free_now(*other, request("k")));
  CHECK(backend->release(g.lease).value() == Released::was_not_held);
}

CONTRACT_CASE("the same owner twice is one holder") {
  const auto backend = store.open({}), other = store.open({});
  Request r = request("k");
  const Granted first = take(*backend, r);
  r.owner = first.lease.owner;  // not always the owner that asked
  const Granted again = take(*backend, r);
  CHECK(again.lease.token == first.lease.token);
  CHECK(again.hold_fd == first.hold_fd);
  CHECK(backend->release(again.lease).value() == Released::yes);
  CHECK(free_now(*other, request("k")));
}

CONTRACT_CASE("the same owner twice is one place in the queue") {
  need(subject().owner_across_backends, "an owner that other connections know");
  const auto holder = store.open({}), one = store.open({}), two = store.open({}),
             other = store.open({});
  const Granted g = take(*holder, request("k"));
  const Request r = request("k");
  auto first = in_queue(*one, r), again = in_queue(*two, r);
  auto behind = in_queue(*other, request("k"));
  if (const auto seen = holder->inspect(r.key).value().value(); seen.waiters_known)
    CHECK(seen.waiters.size() == 2);
  holder->release(g.lease).value();
  const Granted granted = take(*again);
  CHECK(take(*first).lease.token == granted.lease.token);
  CHECK(one->release(granted.lease).value() == Released::yes);
  CHECK(take(*behind).lease.token > granted.lease.token);
}

// lease.hpp, Request: a release may arrive late, or twice. Later grants have another owner, so it
// affects none of them.
CONTRACT_CASE("a late release or cancellation does not end the next grant") {
  const auto backend = store.open({}), other = store.open({});
  const Granted first = take(*backend, request("k"));
  auto place = in_queue(*other, request("k"));
  CHECK(place->cancel().has_value());
  CHECK(backend->release(first.lease).value() == Released::yes);
  const Granted next = take(*backend, request("k"));
  CHECK(next.lease.owner != first.lease.owner);
  CHECK(next.lease.token > first.lease.token);
  CHECK(backend->release(first.lease).value() == Released::was_not_held);
  CHECK(place->cancel().has_value());
  CHECK(kept(backend->renew(next.lease, 60s)));
  CHECK(backend->check(key("k"), next.lease.token).value() == Validity::valid);
  CHECK_FALSE(free_now(*other, request("k")));
  CHECK(backend->release(next.lease).value() == Released::yes);
}

CONTRACT_CASE("renew: kept while held, lost after") {
  const auto backend = store.open({});
  const Granted g = take(*backend, request("k"));
  const auto again = backend->renew(g.lease, 60s).value();
  REQUIRE(std::holds_alternative<Kept>(again));
  const Lease& lease = std::get<Kept>(again).lease;
  CHECK(lease.token == g.lease.token);
  CHECK(lease.deadline >= g.lease.deadline);
  CHECK((lease.deadline == no_deadline) == (subject().traits->liveness == Liveness::process));
  backend->release(g.lease).value();
  CHECK(lost(backend->renew(g.lease, 60s)));
  Lease foreign = g.lease;
  foreign.owner = Owner::random();
  CHECK(lost(backend->renew(foreign, 60s)));
}

CONTRACT_CASE("a deadline is never later than requested") {
  need(subject().traits->liveness != Liveness::process, "a deadline");
  const auto backend = store.open({});
  const Deadline before = Clock::now();
  const Granted g = take(*backend, request("k"));
  CHECK(g.lease.deadline <= later(Clock::now(), 60s));
  CHECK(g.lease.deadline > before);
  const auto again = backend->renew(g.lease, 30s).value();
  REQUIRE(std::holds_alternative<Kept>(again));
  CHECK(std::get<Kept>(again).lease.deadline <= later(Clock::now(), 30s));
}

CONTRACT_CASE("forced release: only with the right token, and the holder notices") {
  const auto backend = store.open({}), admin = store.open({}), other = store.open({});
  const Granted g = take(*backend, request("k"));
  CHECK(admin->force_release(key("k"), g.lease.token + 1).value() == Released::was_not_held);
  CHECK(admin->force_release(key("k"), FencingToken{0}).value() == Released::was_not_held);
  CHECK(admin->force_release(key("other"), g.lease.token).value() == Released::was_not_held);
  CHECK(kept(backend->renew(g.lease, 60s)));
  CHECK(admin->force_release(key("k"), g.lease.token).value() == Released::yes);
  if (g.alarm_fd >= 0) {
    pollfd alarm{g.alarm_fd, POLLIN, 0};
    CHECK(::poll(&alarm, 1, static_cast<int>(patient / 1ms)) == 1);
  }
  CHECK(lost(backend->renew(g.lease, 60s)));
  if (g.alarm_fd >= 0) {
    pollfd alarm{g.alarm_fd, POLLIN, 0};
    CHECK(::poll(&alarm, 1, 0) == 0);  // renew has read it
  }
  CHECK(admin->check(key("k"), g.lease.token).value() == Validity::stale);
  if (!subject().forced_release_frees) CHECK_FALSE(free_now(*other, request("k")));
  if (subject().forced_release_frees) CHECK(free_now(*other, request("k")));
  CHECK(backend->release(g.lease).value() == Released::was_not_held);
  CHECK(take(*other, request("k")).lease.token > g.lease.token);
}

CONTRACT_CASE("forced release without a token removes every holder") {
  need(subject().traits->shared, "shared mode");
  const auto a = store.open({}), b = store.open({}), admin = store.open({});
  const Granted one = take(*a, request("k", Mode::shared)),
                two = take(*b, request("k", Mode::shared));
  CHECK(admin->force_release(key("k"), std::nullopt).value() == Released::yes);
  CHECK(lost(a->renew(one.lease, 60s)));
  CHECK(lost(b->renew(two.lease, 60s)));
  CHECK(admin->force_release(key("k"), std::nullopt).value() == Released::was_not_held);
}

CONTRACT_CASE("check: a grant in force is valid, all others are stale") {
  const auto backend = store.open({}), other = store.open({});
  const auto valid = [&](FencingToken t) {
    return other->check(key("k"), t).value() == Validity::valid;
  };
  const auto owner_valid = [&](const Owner& o) {
    return other->check(key("k"), o).value() == Validity::valid;
  };
  CHECK_FALSE(valid(1));
  CHECK_FALSE(owner_valid(Owner::random()));
  const Granted g = take(*backend, request("k"));
  CHECK(valid(g.lease.token));
  CHECK(owner_valid(g.lease.owner));
  CHECK_FALSE(valid(g.lease.token - 1));
  CHECK_FALSE(valid(g.lease.token + 1));
  CHECK_FALSE(valid(0));
  CHECK_FALSE(owner_valid(Owner::random()));
  backend->release(g.lease).value();
  CHECK_FALSE(valid(g.lease.token));
  CHECK_FALSE(owner_valid(g.lease.owner));
  const Granted next = take(*backend, request("k"));
  CHECK(valid(next.lease.token));
  CHECK_FALSE(valid(g.lease.token));
}

CONTRACT_CASE("requests that the recipe cannot serve are refused as usage errors") {
  const auto backend = store.open({});
  const Traits& t = *subject().traits;
  const auto refused = [&](const Request& r) {
    const auto w = backend->enqueue(r);
    return !w && w.error().code == Errc::usage && !w.error().message.empty();
  };
  CHECK(refused(request("k", Mode::permit, 0)));
  if (!t.shared) CHECK(refused(request("k", Mode::shared)));
  if (!t.permits) CHECK(refused(request("k", Mode::permit, 2)));
  if (!t.detached) CHECK(refused(detached(request("k"), 60s)));
  if (t.detached) CHECK(refused(detached(request("k"), 0s)));
  Request slow = request("k");
  slow.lock_delay = 1s;
  if (!t.lock_delay) CHECK(refused(slow));
  CHECK(backend->traits().recipe == t.recipe);
  CHECK_FALSE(backend->where().empty());
}
