// SPDX-License-Identifier: Apache-2.0
// Hand-made histories; times are microseconds after an arbitrary start.
#include "bench/ledger.hpp"
#include <catch2/catch.hpp>

using namespace dlock;
using bench::jain;
using bench::Ledger;

namespace {

Deadline at(int us) { return Deadline{} + std::chrono::hours{1} + Duration{us}; }

Lease lease(FencingToken token, Mode mode = Mode::exclusive, unsigned slot = 0,
            Deadline deadline = no_deadline) {
  return {*Key::parse("k"), Owner{}, mode, token, slot, deadline, true};
}

}  // namespace

TEST_CASE("one after the other: no overlap, the hand-off counts from the end before") {
  Ledger l(2);
  l.requested(0, at(0));
  CHECK_FALSE(l.granted(0, lease(1), at(10)));  // no hand-off: there was no holder before
  l.requested(1, at(12));
  l.ending(0, at(20));
  CHECK(l.granted(1, lease(2), at(27)) == std::chrono::microseconds{7});
  l.ending(1, at(30));
  l.requested(0, at(40));  // asked after the end: no hand-off
  CHECK_FALSE(l.granted(0, lease(3), at(44)));
  l.ending(0, at(50));
  CHECK(l.tally().overlaps == 0);
  CHECK(l.tally().inversions == 0);
  CHECK_FALSE(l.violated());
}

TEST_CASE("two at the same time are an overlap") {
  Ledger l(2);
  l.requested(0, at(0));
  l.granted(0, lease(1), at(1));
  l.requested(1, at(2));
  l.granted(1, lease(2), at(3));
  CHECK(l.tally().overlaps == 1);
  CHECK(l.violated());
  CHECK(l.tally().first_violation ==
        "key k: client 1 was granted token 2 (X) while client 0 held token 1 (X)");
}

TEST_CASE("a hold past its own deadline is late, not an overlap") {
  Ledger l(2);
  l.requested(0, at(0));
  l.granted(0, lease(1, Mode::exclusive, 0, at(100)), at(1));
  l.requested(1, at(2));
  l.granted(1, lease(2), at(101));
  CHECK(l.tally().overlaps == 0);
  CHECK(l.tally().late == 1);
  l.ending(0, at(200));  // does not end the hold of client 1
  l.requested(0, at(201));
  l.granted(0, lease(3), at(202));
  CHECK(l.tally().overlaps == 1);
}

TEST_CASE("readers share, a writer does not") {
  Ledger l(3);
  for (unsigned i = 0; i < 2; ++i) {
    l.requested(i, at(0));
    l.granted(i, lease(i + 1, Mode::shared), at(1));
  }
  CHECK(l.tally().overlaps == 0);
  SECTION("a writer beside readers") {
    l.requested(2, at(2));
    l.granted(2, lease(3), at(3));
    CHECK(l.tally().overlaps == 1);
  }
  SECTION("a reader beside a writer") {
    l.ending(0, at(2)), l.ending(1, at(2));
    l.requested(2, at(2));
    l.granted(2, lease(3), at(3));
    CHECK(l.tally().overlaps == 0);
    l.requested(0, at(4));
    l.granted(0, lease(4, Mode::shared), at(5));
    CHECK(l.tally().overlaps == 1);
  }
}

TEST_CASE("permits: as many as the limit, each slot once") {
  Ledger l(4, 2);
  for (unsigned i = 0; i < 4; ++i) l.requested(i, at(0));
  l.granted(0, lease(1, Mode::permit, 0), at(1));
  SECTION("the limit") {
    l.granted(1, lease(2, Mode::permit, 1), at(2));
    CHECK(l.tally().overlaps == 0);
    l.granted(2, lease(3, Mode::permit, 2), at(3));
    CHECK(l.tally().overlaps == 1);
  }
  SECTION("the slot") {
    l.granted(1, lease(2, Mode::permit, 0), at(2));
    CHECK(l.tally().overlaps == 1);
  }
  SECTION("each end counts for one hand-off") {
    l.granted(1, lease(2, Mode::permit, 1), at(2));
    l.ending(0, at(10));
    l.ending(1, at(20));
    CHECK(l.granted(2, lease(3, Mode::permit, 0), at(21)) == std::chrono::microseconds{11});
  }
}

TEST_CASE("tokens only rise") {
  Ledger l(2);
  l.requested(0, at(0));
  l.granted(0, lease(5), at(1));
  l.ending(0, at(2));
  SECTION("equal") {
    l.requested(1, at(3));
    l.granted(1, lease(5), at(4));
    CHECK(l.tally().inversions == 1);
  }
  SECTION("lower") {
    l.requested(1, at(3));
    l.granted(1, lease(4), at(4));
    CHECK(l.tally().inversions == 1);
    CHECK(l.tally().first_violation == "key k: client 1 was granted token 4 after token 5");
  }
  SECTION("higher") {
    l.requested(1, at(3));
    l.granted(1, lease(6), at(4));
    CHECK(l.tally().inversions == 0);
  }
  SECTION("never 0") {
    Ledger fresh(1);
    fresh.requested(0, at(0));
    fresh.granted(0, lease(0), at(1));
    CHECK(fresh.tally().inversions == 1);
  }
}

TEST_CASE("shared grants may be noted in another order than the store's, but not after an end") {
  Ledger l(3);
  l.requested(0, at(0)), l.requested(1, at(0));
  l.granted(1, lease(8, Mode::shared), at(1));
  l.granted(0, lease(7, Mode::shared), at(2));  // asked before 8 was noted
  CHECK(l.tally().inversions == 0);
  l.requested(2, at(3));
  l.granted(2, lease(6, Mode::shared), at(4));
  CHECK(l.tally().inversions == 1);
}

TEST_CASE("overtakes: grants to clients that asked later") {
  Ledger l(4);
  for (unsigned i = 0; i < 4; ++i) l.requested(i, at(static_cast<int>(i)));  // 0 1 2 3
  SECTION("in order") {
    for (unsigned i = 0; i < 4; ++i) {
      l.granted(i, lease(i + 1), at(10));
      l.ending(i, at(11));
    }
    CHECK(l.tally().max_overtakes == 0);
  }
  SECTION("the first comes last") {
    FencingToken token = 0;
    for (const unsigned i : {3U, 1U, 2U, 0U}) {
      l.granted(i, lease(++token), at(10));
      l.ending(i, at(11));
    }
    CHECK(l.tally().max_overtakes == 3);
  }
  SECTION("a client that gives up is no longer overtaken, and its next wait counts anew") {
    l.granted(3, lease(1), at(10));
    l.ending(3, at(11));
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
