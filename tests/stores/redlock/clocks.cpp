// SPDX-License-Identifier: Apache-2.0
// Wall clocks of masters jump by an hour. A minority changes nothing; a majority may allow a second
// holder, with a higher token.
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// Their clocks can be moved, as they report an uptime of our choice.
const RedlockMasters::Setup movable{.uptime = std::chrono::hours{2}};

}  // namespace

TEST_CASE(
    "clocks of two of five masters jump an hour ahead or back: the holder keeps the lock, no "
    "second grant") {
  for (const auto by : {std::chrono::seconds{1h}, std::chrono::seconds{-1h}}) {
    CAPTURE(by.count());
    RedlockMasters m{movable};
    auto holder = open_redlock(m.url(), patient()), other = open_redlock(m.url(), patient());
    const Key k = key("minority");
    const Lease held = granted_within(*holder, request(k, 300s));
    REQUIRE(has_all_votes(m, *holder, held, "minority", 300s));
    m.servers[0]->step_clock(by);
    m.servers[3]->step_clock(by);
    CHECK(votes_of(m, "minority", held.owner) >= 3);
    Request impatient = request(k, 300s);
    impatient.wait = false;
    CHECK(std::holds_alternative<Busy>(answer_of(*other, impatient)));
    CHECK(kept(holder->renew(held, 300s)));
    CHECK(holder->check(k, held.token) == Validity::valid);
    // Ahead: it had expired at the two, and was taken again there.
    CHECK(eventually([&] {
      const auto again = holder->renew(held, 300s);
      INFO((again ? "lost" : again.error().message));
      REQUIRE(kept(again));
      return votes_of(m, "minority", held.owner) == 5;
    }));
    CHECK(holder->release(held) == Released::yes);
    const Lease next = granted_within(*other, request(k, 300s));
    CHECK(next.token > held.token);
    m.servers[0]->step_clock(-by);
    m.servers[3]->step_clock(-by);
    CHECK(other->release(next) == Released::yes);
    CHECK(granted_within(*holder, request(k, 300s)).token > next.token);
  }
}

TEST_CASE(
    "clocks of three of five masters jump an hour ahead: a second holder with a higher token, the "
    "first is told with its "
    "renewal") {
  RedlockMasters m{movable};
  auto one = open_redlock(m.url(), patient()), two = open_redlock(m.url(), patient());
  const Key k = key("majority");
  const Lease first = granted_within(*one, request(k, 300s));
  REQUIRE(has_all_votes(m, *one, first, "majority", 300s));
  for (const std::size_t i : {1, 2, 4}) m.servers[i]->step_clock(1h);
  const Lease second = granted_within(*two, request(k, 300s));
  CHECK(Clock::now() < first.deadline);  // both believe that they hold: this is the stated weakness
  CHECK(second.token > first.token);
  CHECK(lost(one->renew(first, 300s)));
  CHECK(two->check(k, second.token) == Validity::valid);
  CHECK(two->check(k, first.token) == Validity::stale);
  CHECK(kept(two->renew(second, 300s)));
  CHECK(two->release(second) == Released::yes);
}

TEST_CASE(
    "clocks of three of five masters jump an hour back: a dead holder's lease does not end, a "
    "forced release ends it") {
  RedlockMasters m{movable};
  auto one = open_redlock(m.url(), patient()), two = open_redlock(m.url(), patient());
  const Key k = key("stuck");
  const Lease first = granted_within(*one, request(k, 300s));
  REQUIRE(has_all_votes(m, *one, first, "stuck", 300s));
  for (const std::size_t i : {0, 2, 3}) m.servers[i]->step_clock(-1h);
  // the others let it expire in time, which has passed there
  for (const std::size_t i : {1, 4}) m.servers[i]->step_clock(300s);
  CHECK(eventually([&] { return votes_of(m, "stuck", first.owner) == 3; }));
  const auto seen = two->inspect(k).value();
  REQUIRE(seen);
  REQUIRE(seen->holders.size() == 1);
  CHECK(*seen->holders[0].remaining > 50min);
  CHECK(two->force_release(k, first.token) == Released::yes);
  CHECK(granted_within(*two, request(k, 300s)).token > first.token);
}
