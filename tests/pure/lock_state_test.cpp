// SPDX-License-Identifier: Apache-2.0
// What the model (lock_state_property_test.cpp) does not meet: it has the rules of LockState.
#include "core/lock_state.hpp"
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <variant>

using namespace dlock;

namespace {

constexpr Micros now = 100'000'000, claim = 10'000'000;

Owner named(char name) {
  Owner o;
  o.bytes[0] = static_cast<std::uint8_t>(name);
  return o;
}
bool granted(LockState& state, const LockState::Acquisition& wanted) {
  return std::holds_alternative<LockState::Granted>(state.acquire(wanted, now));
}

}  // namespace

TEST_CASE("there is no token behind the largest one, and the request for it changes nothing") {
  LockState state;
  REQUIRE(granted(state, {.owner = named('a'), .token_floor = UINT64_MAX}));
  REQUIRE(state.release(named('a'), now));
  const LockState before = state;
  CHECK_THROWS_AS(state.acquire({.owner = named('c')}, now), std::overflow_error);
  CHECK(state == before);
}

TEST_CASE("an invited waiter that could not run is invited again") {
  LockState state;
  REQUIRE(granted(state, {.owner = named('a')}));
  REQUIRE_FALSE(granted(state, {.owner = named('b')}));
  REQUIRE(state.release(named('a'), now));
  const auto invited = state.invite(now, claim);
  REQUIRE(invited.size() == 1);
  LockState::Holder failed;  // as if the invitation of b had failed
  failed.owner = named('z');
  failed.ticket = 77;
  failed.token = 9;
  failed.deadline = never;
  state.holders.push_back(failed);
  CHECK_FALSE(granted(state, {.owner = named('b')}));
  CHECK(state.oldest_invitation_ends() == never);
  REQUIRE(state.release(named('z'), now));
  CHECK(state.invite(now, claim) == invited);
}

TEST_CASE("the end of a program is added to its holder alone, once") {
  LockState state;
  for (const char name : {'a', 'b'})
    (void)state.acquire({.owner = named(name), .mode = Mode::shared, .meta = "pid=7"}, 1);
  state.note_end(named('a'), "");
  CHECK(state.holders[0].meta == "pid=7");
  state.note_end(named('a'), "ended=1.3&left=12.sshd");
  state.note_end(named('a'), "ended=2.4");
  CHECK(state.holders[0].meta == "pid=7&ended=2.4");
  CHECK(state.holders[1].meta == "pid=7");
}
