// SPDX-License-Identifier: Apache-2.0
// What time does to a key: leases, lock-delays, silent waiters and invitations.
#include <catch2/catch.hpp>
#include "unit/lock_state_scene.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a lease ends at its deadline, not before, and opens the key") {
  Scene k;
  CHECK(k.leased('a', 10 * sec) == "G1");
  const auto answer = k.state.acquire(Scene::ask('b'), k.now);
  CHECK(std::get<LockState::Waiting>(answer).free_at == k.now + 10 * sec);
  k.now += 10 * sec - 1;
  CHECK(k.holds('a'));
  CHECK(k.x('b') == "W0");
  k.now += 1;
  CHECK_FALSE(k.holds('a'));
  CHECK(k.x('b') == "G2");
  CHECK(k.x('a') == "W0");
}

TEST_CASE("renewing sets the deadline from now, longer or shorter, and revives no ended lease") {
  Scene k;
  k.leased('a', 10 * sec);
  k.now += 9 * sec;
  CHECK(k.state.renew(named('a'), 10 * sec, k.now) == FencingToken{1});
  k.now += 9 * sec;
  CHECK(k.holds('a'));
  CHECK(k.state.renew(named('a'), sec, k.now) == FencingToken{1});
  CHECK(k.state.holders[0].since == k.now);
  k.now += sec;
  CHECK_FALSE(k.state.renew(named('a'), 10 * sec, k.now));
  CHECK_FALSE(k.holds('a'));
  CHECK_FALSE(k.state.renew(named('z'), sec, k.now));

  CHECK(k.x('b') == "G2");
  CHECK(k.state.renew(named('b'), 5 * sec, k.now) == FencingToken{2});  // attached becomes detached
  CHECK(k.state.renew(named('b'), never, k.now) == FencingToken{2});    // and back
  k.now += 1'000'000 * sec;
  CHECK(k.holds('b'));
}

TEST_CASE(
    "a lease in its lock-delay is over (no renewal, no release), but the key is not free yet") {
  Scene k;
  k.leased('a', 10 * sec, 5 * sec);
  k.now += 10 * sec;
  CHECK_FALSE(k.holds('a'));
  CHECK_FALSE(k.state.renew(named('a'), 10 * sec, k.now));
  CHECK_FALSE(k.release('a'));
  CHECK(k.x('b') == "W0");
  CHECK(k.leased('a', 10 * sec) == "W1");  // even for the same owner
  k.now += 5 * sec - 1;
  CHECK(k.x('b') == "W0");
  k.now += 1;
  CHECK(k.x('b') == "G2");
}

TEST_CASE("a lock-delay follows a vanished holder, never a release or a forced release") {
  Scene k;
  k.leased('a', never, 5 * sec);
  CHECK(k.release('a'));
  CHECK(k.leased('b', never, 5 * sec) == "G2");
  CHECK(k.state.force_release(2) == 1);
  CHECK(k.leased('c', never, 5 * sec) == "G3");
  k.now += sec;
  CHECK(k.state.vanish(k.ticket('c'), k.now));
  CHECK_FALSE(k.holds('c'));
  CHECK(k.state.free_at() == k.now + 5 * sec);
  CHECK(k.x('d') == "W0");
  CHECK_FALSE(k.state.vanish(k.ticket('c'), k.now + sec));  // the delay runs once
  k.now += 5 * sec;
  CHECK(k.x('d') == "G4");
  CHECK(k.state.vanish(k.ticket('d'), k.now));  // no delay: free at once
  CHECK(k.x('e') == "G5");
  k.leased('f', never), k.state.force_release(0);
  CHECK(k.leased('f', never, 5 * sec) == "G6");
  k.state.vanish(k.ticket('f'), k.now);
  CHECK(k.state.force_release(6) == 1);  // an operator may also end a lock-delay
  CHECK(k.x('g') == "G7");
}

TEST_CASE("a permit in its lock-delay keeps its slot and its place") {
  Scene k;
  auto a = Scene::ask('a', Mode::permit, 2);
  a.delay = 5 * sec;
  k.acquire(a), k.p('b', 2);
  k.state.vanish(k.ticket('a'), k.now);
  CHECK(k.p('c', 2) == "W0");
  k.release('b');
  CHECK(k.p('c', 2) == "G3");
  CHECK(k.slot('c') == 1);
  CHECK(k.p('d', 2) == "W0");
  k.now += 5 * sec;
  CHECK(k.p('d', 2) == "G4");
  CHECK(k.slot('d') == 0);
}

TEST_CASE("vanish removes one waiter and affects no other") {
  Scene k;
  k.x('a'), k.x('b'), k.x('c');
  CHECK_FALSE(k.state.vanish(99, k.now));
  CHECK(k.state.vanish(k.ticket('b'), k.now));
  CHECK(k.queue() == "c");
  CHECK(k.holds('a'));
  CHECK(k.x('b') == "W1");  // a new place, at the end
}

TEST_CASE("a silent waiter is dropped, one that polls is alive") {
  Scene k;
  auto b = Scene::ask('b');
  b.patience = 10 * sec;
  k.x('a');
  CHECK(k.acquire(b) == "W0");
  CHECK(k.x('c') == "W1");
  k.now += 9 * sec;
  CHECK(k.acquire(b) == "W0");
  k.now += 9 * sec;
  k.state.expire(k.now);
  CHECK(k.queue() == "bc");
  k.now += sec;
  CHECK(k.acquire(b) == "W0");  // late, but not dropped yet: a request proves that it is alive
  k.now += 10 * sec;
  CHECK(k.x('c') == "W0");  // the request of c dropped it
  CHECK(k.acquire(b) == "W1");
}

TEST_CASE("every waiter that may run is invited once; an unclaimed invitation ends") {
  Scene k;
  k.x('a'), k.x('b'), k.s('c'), k.s('d');
  CHECK(k.invite().empty());
  CHECK(k.state.oldest_invitation_ends() == never);
  k.release('a');
  CHECK(k.invite(10 * sec) == "b");
  CHECK(k.invite(10 * sec).empty());
  CHECK(k.state.oldest_invitation_ends() == k.now + 10 * sec);
  CHECK(k.state.free_at() == k.now + 10 * sec);
  k.now += 10 * sec - 1;
  CHECK(k.invite().empty());
  k.now += 1;
  CHECK(k.invite(10 * sec) == "cd");  // b did not claim it
  CHECK(k.queue() == "cd");
  CHECK(k.s('c') == "G2");
  CHECK(k.s('d') == "G3");
  CHECK(k.state.oldest_invitation_ends() == never);
}

TEST_CASE("an invited waiter that could not run is invited again") {
  Scene k;
  k.x('a'), k.x('b');
  k.release('a');
  CHECK(k.invite() == "b");
  k.state.holders.push_back(LockState::Holder{// as if the invitation of b had failed
                                              .owner = named('z'),
                                              .ticket = 77,
                                              .token = 9,
                                              .deadline = never,
                                              .meta = "z"});
  CHECK(k.x('b') == "W0");
  CHECK(k.state.oldest_invitation_ends() == never);
  k.release('z');
  CHECK(k.invite() == "b");
}

TEST_CASE("an invitation never extends a waiter's time, and an expired waiter is passed over") {
  Scene k;
  auto b = Scene::ask('b');
  b.patience = 5 * sec;
  k.x('a'), k.acquire(b), k.x('c');
  k.now += 2 * sec;
  k.release('a');
  CHECK(k.invite(10 * sec) == "b");
  CHECK(k.state.oldest_invitation_ends() == k.now + 3 * sec);

  Scene other;
  other.x('a'), other.acquire(b), other.x('c');
  other.state.force_release(0);
  other.now += 5 * sec;
  CHECK(other.invite(10 * sec) == "c");
}

TEST_CASE("free_at takes a silent waiter ahead into account") {
  Scene k;
  auto w = Scene::ask('w');
  w.patience = 5 * sec;
  k.s('a'), k.acquire(w);
  const auto answer = k.state.acquire(Scene::ask('r', Mode::shared), k.now);
  CHECK(std::get<LockState::Waiting>(answer).free_at == k.now + 5 * sec);
  k.now += 5 * sec;
  CHECK(k.invite() == "r");
}
