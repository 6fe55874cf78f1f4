// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "common/unanswered_releases.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

Lease lease(const char* key, const Owner& owner, Duration left = 10s) {
  Lease l{Key::parse(key).value(), owner};
  l.deadline = Clock::now() + left;
  return l;
}

}  // namespace

TEST_CASE("was_not_held after an unanswered release counts as released, once") {
  UnansweredReleases u;
  const Owner owner = Owner::random();
  const Lease a = lease("a", owner);
  CHECK(u.answered(a, false) == Released::was_not_held);
  CHECK(u.answered(a, true) == Released::yes);
  CHECK(u.answered(a, false, true) == Released::yes);  // an earlier try of the same call
  u.add(a);
  u.add(a);
  CHECK(u.has(a.key, owner));
  CHECK(u.answered(a, false) == Released::yes);
  CHECK_FALSE(u.has(a.key, owner));
  CHECK(u.answered(a, false) == Released::was_not_held);
}

TEST_CASE("another key of the owner, and the same key of another owner, do not count as released") {
  UnansweredReleases u;
  const Owner owner = Owner::random();
  const Lease a = lease("a", owner);
  u.add(a);
  CHECK(u.answered(lease("b", owner), false) == Released::was_not_held);
  CHECK(u.answered(lease("a", Owner::random()), false) == Released::was_not_held);
  const Lease b = lease("b", owner);
  u.add(b);  // several keys of one owner, each unanswered
  CHECK(u.open().size() == 2);
  CHECK(u.answered(a, false) == Released::yes);
  CHECK(u.answered(b, false) == Released::yes);
  CHECK(u.open().empty());
}

TEST_CASE("once its ttl is over, an unanswered release neither counts nor is repeated") {
  UnansweredReleases u;
  const Lease over = lease("a", Owner::random(), -1ms);
  CHECK(u.answered(over, false, true) == Released::was_not_held);
  u.add(over);
  CHECK(u.answered(over, false) == Released::was_not_held);
  u.add(over);
  CHECK(u.open().empty());
}
