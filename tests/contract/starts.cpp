// SPDX-License-Identifier: Apache-2.0
// --once-per: the noted start is changed only from what was read, and only under a grant in force.
#include "contract/helpers.hpp"
#include "run/timing.hpp"
#include "store/several.hpp"

namespace dlock::contract {
namespace {

void need_starts() { need(subject().traits->starts, "that it notes starts"); }

RunStarts starts_of(Backend& b, const char* name = "k") { return b.starts(key(name)).value(); }
// A start now, needed for an hour; `number` makes it another.
RunStart start_at(const RunStarts& s, std::int64_t number = 0) {
  return {s.now, s.now + 3'600'000'000 + number};
}
UpdateResult change(Backend& b, const Lease& lease, const std::optional<RunStart>& was,
                    const std::optional<RunStart>& is) {
  return b.note_start(lease, {was, is}).value();
}

}  // namespace

CONTRACT_CASE("starts: noted under a grant in force, and by no other") {
  need_starts();
  const auto backend = store.open({}), other = store.open({});
  const std::int64_t before = wall_micros();
  const Granted g = take(*backend, request("k"));
  const RunStarts none = starts_of(*backend);
  CHECK_FALSE(none.last);
  CHECK(std::llabs(none.now - before) < 30'000'000);
  const RunStart one = start_at(none), two = start_at(none, 1);
  Lease foreign = g.lease;
  foreign.owner = Owner::random();
  CHECK(change(*other, foreign, {}, one) == UpdateResult::not_held);
  CHECK_FALSE(starts_of(*other).last);
  CHECK(change(*backend, g.lease, {}, one) == UpdateResult::yes);
  CHECK(starts_of(*other).last == one);
  CHECK(backend->release(g.lease).value() == Released::yes);
  CHECK(change(*backend, g.lease, one, two) == UpdateResult::not_held);
  CHECK(change(*backend, g.lease, one, {}) == UpdateResult::not_held);
  CHECK(starts_of(*other).last == one);
  const Granted next = take(*other, request("k"));
  CHECK(change(*backend, g.lease, one, two) == UpdateResult::not_held);
  CHECK(starts_of(*other).last == one);
  CHECK(change(*other, next.lease, one, two) == UpdateResult::yes);
  CHECK(starts_of(*backend).last == two);
}

CONTRACT_CASE("starts: of two who hold the key and have read the same, one notes its start") {
  need_starts();
  const auto a = store.open({}), b = store.open({});
  const auto both = [&](const char* name, const Lease& one, const Lease& two) {
    CAPTURE(name);
    const auto read_a = starts_of(*a, name), read_b = starts_of(*b, name);
    const RunStart mine = start_at(read_a, 1), other = {mine.at, start_at(read_a, 2).until};
    CHECK(change(*a, one, read_a.last, mine) == UpdateResult::yes);
    CHECK(change(*b, two, read_b.last, other) == UpdateResult::other_start);
    CHECK(starts_of(*b, name).last == mine);
    // what was not noted is not withdrawn
    CHECK(change(*b, two, other, read_b.last) == UpdateResult::other_start);
    CHECK(starts_of(*b, name).last == mine);
    // --again
    CHECK(change(*b, two, mine, other) == UpdateResult::yes);
    CHECK(change(*a, one, mine, read_a.last) == UpdateResult::other_start);
    CHECK(starts_of(*a, name).last == other);
  };
  if (subject().traits->shared) {
    const Granted one = take(*a, request("shared", Mode::shared)),
                  two = take(*b, request("shared", Mode::shared));
    both("shared", one.lease, two.lease);
  }
  if (subject().traits->permits) {
    const Granted one = take(*a, request("permits", Mode::permit, 4)),
                  two = take(*b, request("permits", Mode::permit, 4));
    both("permits", one.lease, two.lease);
  }
  const Granted outer = take(*a, request("nested"));  // runs under the lease of an outer one
  both("nested", outer.lease, outer.lease);
}

CONTRACT_CASE("starts: a change may be repeated, and a withdrawal brings back what was before") {
  need_starts();
  const auto b = store.open({});
  const Granted g = take(*b, request("k"));
  const RunStart one = start_at(starts_of(*b), 1), two = start_at(starts_of(*b), 2);
  for (int i = 0; i < 2; ++i) CHECK(change(*b, g.lease, {}, one) == UpdateResult::yes);
  for (int i = 0; i < 2; ++i) CHECK(change(*b, g.lease, one, two) == UpdateResult::yes);
  CHECK(starts_of(*b).last == two);
  CHECK(change(*b, g.lease, {}, one) == UpdateResult::other_start);  // late
  for (int i = 0; i < 2; ++i) CHECK(change(*b, g.lease, two, one) == UpdateResult::yes);
  CHECK(starts_of(*b).last == one);
  for (int i = 0; i < 2; ++i) CHECK(change(*b, g.lease, one, {}) == UpdateResult::yes);
  CHECK_FALSE(starts_of(*b).last);
  CHECK(change(*b, g.lease, one, two) == UpdateResult::other_start);
  CHECK_FALSE(starts_of(*b).last);
}

CONTRACT_CASE("starts: a note that is not needed any more counts as none") {
  need_starts();
  const auto b = store.open({});
  const Granted g = take(*b, request("k"));
  const RunStarts none = starts_of(*b);
  const RunStart soon{none.now, none.now + 20'000}, over{none.now, none.now}, next = start_at(none);
  CHECK(change(*b, g.lease, {}, soon) == UpdateResult::yes);
  REQUIRE(becomes([&] { return !starts_of(*b).last; }));
  for (int i = 0; i < 2; ++i) CHECK(change(*b, g.lease, soon, over) == UpdateResult::yes);
  CHECK_FALSE(starts_of(*b).last);
  CHECK(change(*b, g.lease, {}, next) == UpdateResult::yes);
  CHECK(starts_of(*b).last == next);
}

CONTRACT_CASE("starts: several keys are noted together, or none of them") {
  need_starts();
  need(subject().traits->permits, "permits");
  const auto other = store.open({});
  const auto all = dlock::several(store.open({}), {key("a"), key("b")},
                                  dlock::run::renewals({.proven = 30s, .renew_every = 10s}));
  const Granted held = take(*other, request("b", Mode::permit, 2));
  const RunStart older = start_at(starts_of(*other, "b"), 1),
                 mine = start_at(starts_of(*other, "b"), 2),
                 others = start_at(starts_of(*other, "b"), 3);
  CHECK(change(*other, held.lease, {}, older) == UpdateResult::yes);

  const Granted g = take(*all, request("a", Mode::permit, 2));
  const RunStarts seen = starts_of(*all, "a");
  CHECK(seen.last == older);
  CHECK(change(*all, g.lease, seen.last, mine) == UpdateResult::yes);
  CHECK(starts_of(*other, "a").last == mine);
  CHECK(starts_of(*other, "b").last == mine);
  CHECK(change(*all, g.lease, mine, seen.last) == UpdateResult::yes);  // each has its own again
  CHECK_FALSE(starts_of(*other, "a").last);
  CHECK(starts_of(*other, "b").last == older);

  CHECK(change(*other, held.lease, older, others) == UpdateResult::yes);
  CHECK(change(*all, g.lease, seen.last, mine) == UpdateResult::other_start);
  CHECK(change(*all, g.lease, mine, seen.last) == UpdateResult::other_start);
  CHECK_FALSE(starts_of(*other, "a").last);
  CHECK(starts_of(*other, "b").last == others);
}

}  // namespace dlock::contract
