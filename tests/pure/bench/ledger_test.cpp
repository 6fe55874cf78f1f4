// SPDX-License-Identifier: Apache-2.0
// Hand-made histories; times are microseconds after an arbitrary start.
#include "bench/ledger.hpp"
#include <catch2/catch.hpp>
#include <tuple>

using namespace dlock;
using bench::jain;
using bench::Ledger;

namespace {

Deadline at(int us) { return Deadline{} + std::chrono::hours{1} + Duration{us}; }

Lease lease(FencingToken token, Mode mode = Mode::exclusive, unsigned slot = 0,
            Deadline deadline = no_deadline) {
  return {*Key::parse("k"), Owner{}, mode, token, slot, deadline, true};
}

struct Clients : Ledger {
  using Ledger::Ledger;
  // A client asks, and a microsecond later, at `us`, it is granted.
  auto take(unsigned client, const Lease& grant, int us) {
    requested(client, at(us - 1));
    return granted(client, grant, at(us));
  }
};

}  // namespace

TEST_CASE("one after the other: no overlap, the hand-off counts from the end before") {
  Clients l(2);
  CHECK_FALSE(l.take(0, lease(1), 10));  // no hand-off: there was no holder before
  l.requested(1, at(12));
  l.ending(0, at(20));
  CHECK(l.granted(1, lease(2), at(27)) == std::chrono::microseconds{7});
  l.ending(1, at(30));
  CHECK_FALSE(l.take(0, lease(3), 44));  // asked after the end: no hand-off
  l.ending(0, at(50));
  CHECK(l.tally().overlaps == 0);
  CHECK(l.tally().inversions == 0);
  CHECK_FALSE(l.violated());
}

TEST_CASE("two at the same time are an overlap") {
  Clients l(2);
  l.take(0, lease(1), 1);
  l.take(1, lease(2), 3);
  CHECK(l.tally().overlaps == 1);
  CHECK(l.violated());
  CHECK(l.tally().first_violation ==
        "key k: client 1 was granted token 2 (X) while client 0 held token 1 (X)");
}

TEST_CASE("a hold past its own deadline is late, not an overlap") {
  Clients l(2);
  l.take(0, lease(1, Mode::exclusive, 0, at(100)), 1);
  l.take(1, lease(2), 101);
  CHECK(l.tally().overlaps == 0);
  CHECK(l.tally().late == 1);
  l.ending(0, at(200));  // does not end the hold of client 1
  l.take(0, lease(3), 202);
  CHECK(l.tally().overlaps == 1);
}

TEST_CASE("readers share, a writer does not") {
  Clients l(3);
  for (unsigned i = 0; i < 2; ++i) l.take(i, lease(i + 1, Mode::shared), 1);
  CHECK(l.tally().overlaps == 0);
  SECTION("a writer beside readers") { l.take(2, lease(3), 3); }
  SECTION("a reader beside a writer") {
    l.ending(0, at(2)), l.ending(1, at(2));
    l.take(2, lease(3), 3);
    CHECK(l.tally().overlaps == 0);
    l.take(0, lease(4, Mode::shared), 5);
  }
  CHECK(l.tally().overlaps == 1);
}

TEST_CASE("permits: as many as the limit, each slot once") {
  Clients l(4, 2);
  l.take(0, lease(1, Mode::permit, 0), 1);
  SECTION("the limit") {
    l.take(1, lease(2, Mode::permit, 1), 2);
    CHECK(l.tally().overlaps == 0);
    l.take(2, lease(3, Mode::permit, 2), 3);
    CHECK(l.tally().overlaps == 1);
  }
  SECTION("the slot") {
    l.take(1, lease(2, Mode::permit, 0), 2);
    CHECK(l.tally().overlaps == 1);
  }
  SECTION("each end counts for one hand-off") {
    l.requested(2, at(0));
    l.take(1, lease(2, Mode::permit, 1), 2);
    l.ending(0, at(10));
    l.ending(1, at(20));
    CHECK(l.granted(2, lease(3, Mode::permit, 0), at(21)) == std::chrono::microseconds{11});
  }
}

TEST_CASE("tokens only rise, and are never 0") {
  for (const auto& [first, second, inversions] :
       {std::tuple{5, 5, 1}, {5, 4, 1}, {5, 6, 0}, {0, 1, 1}}) {
    CAPTURE(first, second);
    Clients l(2);
    l.take(0, lease(static_cast<FencingToken>(first)), 1);
    l.ending(0, at(2));
    l.take(1, lease(static_cast<FencingToken>(second)), 4);
    CHECK(l.tally().inversions == static_cast<unsigned>(inversions));
    if (second == 4)
      CHECK(l.tally().first_violation == "key k: client 1 was granted token 4 after token 5");
  }
}

TEST_CASE("shared grants may be noted in another order than the store's, but not after an end") {
  Clients l(3);
  l.requested(0, at(0));
  l.take(1, lease(8, Mode::shared), 1);
  l.granted(0, lease(7, Mode::shared), at(2));  // asked before 8 was noted
  CHECK(l.tally().inversions == 0);
  l.take(2, lease(6, Mode::shared), 4);
  CHECK(l.tally().inversions == 1);
}

TEST_CASE("overtakes: grants to clients that asked later") {
  Ledger l(4);
  for (unsigned i = 0; i < 4; ++i) l.requested(i, at(static_cast<int>(i)));  // 0 1 2 3
  FencingToken token = 0;
  const auto holds_once = [&](unsigned i) {
    l.granted(i, lease(++token), at(10));
    l.ending(i, at(11));
  };
  SECTION("in order") {
    for (const unsigned i : {0U, 1U, 2U, 3U}) holds_once(i);
    CHECK(l.tally().max_overtakes == 0);
  }
  SECTION("the first comes last") {
    for (const unsigned i : {3U, 1U, 2U, 0U}) holds_once(i);
    CHECK(l.tally().max_overtakes == 3);
  }
  SECTION("a client that gives up is no longer overtaken, and its next wait counts anew") {
    holds_once(3);
    CHECK(l.tally().max_overtakes == 1);
    l.gave_up(0), l.gave_up(1), l.gave_up(2);
    l.requested(0, at(20)), l.requested(3, at(21));
    l.granted(3, lease(2), at(22));
    CHECK(l.tally().max_overtakes == 1);
  }
}

TEST_CASE("Jain's index") {
  CHECK(jain({5, 5, 5, 5}) == Approx(1));
  CHECK(jain({10, 0, 0, 0}) == Approx(0.25));
  CHECK(jain({1, 2, 3}) == Approx(36.0 / (3 * 14)));
  CHECK(jain({0, 0}) == 1);
}
