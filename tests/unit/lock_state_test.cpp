// SPDX-License-Identifier: Apache-2.0
// Who gets a key, who waits, which token: the rules of LockState, one scenario each.
#include <catch2/catch.hpp>
#include <stdexcept>
#include "unit/lock_state_scene.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("exclusive locks are granted in order of arrival") {
  Scene k;
  CHECK(k.x('a') == "G1");
  CHECK(k.x('b') == "W0");
  CHECK(k.x('c') == "W1");
  CHECK(k.x('b') == "W0");  // a repeated request keeps its place
  CHECK(k.release('a'));
  CHECK(k.x('c') == "W1");  // free, but b came first
  CHECK(k.x('d') == "W2");
  CHECK(k.x('b') == "G2");
  CHECK(k.release('b'));
  CHECK(k.x('c') == "G3");
}

TEST_CASE("a try neither queues nor passes waiters") {
  Scene k;
  auto impatient = Scene::ask('t');
  impatient.wait = false;
  CHECK(k.x('a') == "G1");
  CHECK(k.acquire(impatient) == "B");
  CHECK(k.queue().empty());
  CHECK(k.x('b') == "W0");
  k.release('a');
  CHECK(k.acquire(impatient) == "B");  // free, but b was invited
  CHECK(k.x('b') == "G2");
  k.release('b');
  CHECK(k.acquire(impatient) == "G3");
}

TEST_CASE("a queued waiter that makes its last try keeps its place until it cancels") {
  Scene k;
  k.x('a'), k.x('b');
  auto last = Scene::ask('b');
  last.wait = false;
  CHECK(k.acquire(last) == "B");
  CHECK(k.queue() == "b");
  CHECK(k.state.cancel(named('b')));
  CHECK_FALSE(k.state.cancel(named('b')));
  CHECK(k.queue().empty());
}

TEST_CASE("readers pass together, and never a writer that came first") {
  Scene k;
  CHECK(k.s('a') == "G1");
  CHECK(k.s('b') == "G2");
  CHECK(k.x('w') == "W0");
  CHECK(k.s('c') == "W1");
  CHECK(k.s('d') == "W2");
  k.release('a');
  CHECK(k.x('w') == "W0");  // b is still inside
  CHECK(k.s('c') == "W1");
  k.release('b');
  CHECK(k.s('c') == "W1");
  CHECK(k.x('w') == "G3");
  CHECK(k.s('c') == "W0");
  k.release('w');
  CHECK(k.invite() == "cd");
  CHECK(k.s('d') == "G4");  // together, in any order
  CHECK(k.s('c') == "G5");
}

TEST_CASE("a writer waits for all readers") {
  Scene k;
  k.s('a'), k.s('b'), k.x('w');
  k.release('b');
  CHECK(k.x('w') == "W0");
  k.release('a');
  CHECK(k.x('w') == "G3");
}

TEST_CASE("permits: up to the limit, each with the lowest free slot") {
  Scene k;
  CHECK(k.p('a', 3) == "G1");
  CHECK(k.p('b', 3) == "G2");
  CHECK(k.p('c', 3) == "G3");
  CHECK((k.slot('a') == 0 && k.slot('b') == 1 && k.slot('c') == 2));
  CHECK(k.p('d', 3) == "W0");
  CHECK(k.p('e', 3) == "W1");
  k.release('b');
  CHECK(k.p('e', 3) == "W1");
  CHECK(k.p('d', 3) == "G4");
  CHECK(k.slot('d') == 1);
  k.release('a'), k.release('c');
  CHECK(k.p('e', 3) == "G5");
  CHECK(k.slot('e') == 0);
  CHECK(k.p('e', 3) == "G5");
  CHECK(k.slot('e') == 0);  // it keeps its slot
  CHECK(k.x('w') == "W0");
  CHECK(k.p('f', 3) == "W1");  // there is room, but a writer came first
}

TEST_CASE(
    "a permit with limit 1 excludes other permits; exclusive mode excludes permits and readers") {
  Scene k;
  CHECK(k.p('a', 1) == "G1");
  CHECK(k.p('b', 1) == "W0");
  k.release('a'), k.state.cancel(named('b'));
  CHECK(k.x('w') == "G2");
  CHECK(k.p('c', 9) == "W0");
  CHECK(k.s('d') == "W1");
  CHECK(k.state.holder(named('w'), k.now)->slot == 0);
}

TEST_CASE("permits with different limits: no waiter passes one with a smaller limit") {
  Scene k;
  CHECK(k.x('a') == "G1");
  CHECK(k.p('b', 1) == "W0");
  CHECK(k.p('c', 5) == "W1");
  k.release('a');
  CHECK(k.invite() == "b");
  CHECK(k.p('c', 5) == "W1");  // granted first, it would keep b out
  CHECK(k.p('b', 1) == "G2");
  CHECK(k.p('c', 5) == "G3");
  CHECK(k.slot('c') == 1);

  Scene other;
  other.x('a'), other.p('b', 2), other.s('c'), other.p('d', 9), other.release('a');
  CHECK(other.invite() == "bc");  // d would be a third
}

TEST_CASE("repeating a request is harmless") {
  Scene k;
  k.leased('a', 10 * sec);
  const LockState before = k.state;
  k.now += sec;
  CHECK(k.leased('a', 10 * sec) == "G1");
  CHECK(k.state == before);  // even the deadline is the same
  k.x('b');
  const LockState waiting = k.state;
  CHECK(k.x('b') == "W0");
  CHECK(k.state == waiting);
}

TEST_CASE("a forced release removes the holder with a token, or all, and keeps the fence") {
  Scene k;
  k.s('a'), k.s('b'), k.x('w');
  CHECK(k.state.force_release(99) == 0);
  CHECK(k.state.force_release(1) == 1);
  CHECK_FALSE(k.holds('a'));
  CHECK(k.holds('b'));
  CHECK_FALSE(k.state.renew(named('a'), sec, k.now));
  CHECK_FALSE(k.release('a'));
  CHECK(k.state.force_release(0) == 1);
  CHECK(k.state.force_release(0) == 0);
  CHECK(k.queue() == "w");
  CHECK(k.state.fence == 2);
  CHECK(k.x('w') == "G3");
}

TEST_CASE("tokens rise and reach their floor") {
  Scene k;
  auto a = Scene::ask('a');
  a.token_floor = 1000;
  CHECK(k.acquire(a) == "G1000");
  k.release('a');
  CHECK(k.x('b') == "G1001");
  k.release('b');
  a.token_floor = 5;
  CHECK(k.acquire(a) == "G1002");
  k.release('a');
  a.token_floor = UINT64_MAX;
  CHECK(k.acquire(a) == "G18446744073709551615");
  k.release('a');
  const LockState before = k.state;
  CHECK_THROWS_AS(k.x('c'), std::overflow_error);
  CHECK(k.state == before);
}

TEST_CASE("metadata of holders and waiters is kept") {
  Scene k;
  auto a = Scene::ask('a');
  a.meta = "host=h";
  k.acquire(a);
  CHECK(k.state.holders[0].meta == "host=h");
  CHECK(k.state.holders[0].since == k.now);
  auto b = Scene::ask('b');
  b.meta = "host=i";
  k.acquire(b);
  CHECK(k.state.waiters[0].meta == "host=i");
}
