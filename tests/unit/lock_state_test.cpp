// SPDX-License-Identifier: Apache-2.0
// The rules of LockState, one story each. Time is in seconds here.
#include "core/lock_state.hpp"
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

using namespace dlock;

namespace {

constexpr Micros sec = 1'000'000;

Owner named(char name) {
  Owner o;
  o.bytes[0] = static_cast<std::uint8_t>(name);
  return o;
}

// A lock and a clock; people are single letters.
struct Scene {
  LockState state;
  Micros now = 100 * sec;

  static LockState::Ask ask(char name, Mode mode = Mode::exclusive, unsigned limit = UINT_MAX) {
    LockState::Ask a;
    a.owner = named(name), a.mode = mode, a.limit = limit, a.meta = std::string(1, name);
    return a;
  }
  // "G" + token, "W" + rank or "B".
  std::string acquire(const LockState::Ask& a) {
    const auto answer = state.acquire(a, now);
    if (const auto* g = std::get_if<LockState::Granted>(&answer)) return "G" + std::to_string(g->token);
    if (const auto* w = std::get_if<LockState::Waiting>(&answer)) return "W" + std::to_string(w->rank);
    return "B";
  }
  std::string x(char name) { return acquire(ask(name)); }
  std::string s(char name) { return acquire(ask(name, Mode::shared)); }
  std::string p(char name, unsigned limit) { return acquire(ask(name, Mode::permit, limit)); }
  std::string leased(char name, Micros ttl, Micros delay = 0) {
    auto a = ask(name);
    a.ttl = ttl, a.delay = delay;
    return acquire(a);
  }
  bool release(char name) { return state.release(named(name), now); }
  bool holds(char name) const { return state.holder(named(name), now) != nullptr; }
  unsigned slot(char name) const { return state.holder(named(name), now)->slot; }
  std::uint64_t ticket(char name) const {
    for (const auto& h : state.holders)
      if (h.owner == named(name)) return h.ticket;
    return state.waiters.at(state.rank_of(named(name))).ticket;
  }
  std::string invite(Micros claim = 10 * sec) {
    std::string names;
    for (const std::uint64_t t : state.invite(now, claim))
      for (const auto& w : state.waiters)
        if (w.ticket == t) names += w.meta;
    return names;
  }
  std::string queue() const {
    std::string names;
    for (const auto& w : state.waiters) names += w.meta;
    return names;
  }
};

}  // namespace

TEST_CASE("exclusive locks are granted in order of arrival") {
  Scene k;
  CHECK(k.x('a') == "G1");
  CHECK(k.x('b') == "W0");
  CHECK(k.x('c') == "W1");
  CHECK(k.x('b') == "W0");  // asking again neither loses nor gains a place
  CHECK(k.release('a'));
  CHECK(k.x('c') == "W1");  // free, but b came first
  CHECK(k.x('d') == "W2");
  CHECK(k.x('b') == "G2");
  CHECK(k.release('b'));
  CHECK(k.x('c') == "G3");
}

TEST_CASE("a try neither queues nor passes those who wait") {
  Scene k;
  auto impatient = Scene::ask('t');
  impatient.wait = false;
  CHECK(k.x('a') == "G1");
  CHECK(k.acquire(impatient) == "B");
  CHECK(k.queue().empty());
  CHECK(k.x('b') == "W0");
  k.release('a');
  CHECK(k.acquire(impatient) == "B");  // free, but b was told
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
  CHECK(k.s('d') == "G4");  // together, in whichever order they come
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

TEST_CASE("permits: at most so many, each with the lowest free slot") {
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

TEST_CASE("a permit of one is exclusive among permits; exclusive shuts permits and readers out") {
  Scene k;
  CHECK(k.p('a', 1) == "G1");
  CHECK(k.p('b', 1) == "W0");
  k.release('a'), k.state.cancel(named('b'));
  CHECK(k.x('w') == "G2");
  CHECK(k.p('c', 9) == "W0");
  CHECK(k.s('d') == "W1");
  CHECK(k.state.holder(named('w'), k.now)->slot == 0);
}

TEST_CASE("permits with different limits: nobody passes the one whose limit is smaller") {
  Scene k;
  CHECK(k.x('a') == "G1");
  CHECK(k.p('b', 1) == "W0");
  CHECK(k.p('c', 5) == "W1");
  k.release('a');
  CHECK(k.invite() == "b");
  CHECK(k.p('c', 5) == "W1");  // inside first it would shut b out
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
  CHECK(k.state == before);  // not even the deadline moves
  k.x('b');
  const LockState waiting = k.state;
  CHECK(k.x('b') == "W0");
  CHECK(k.state == waiting);
}

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

TEST_CASE("renewing moves the deadline from now, longer or shorter, and revives nothing") {
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

TEST_CASE("a lease in its lock-delay is over: neither renewed, released nor held, but nobody else gets in") {
  Scene k;
  k.leased('a', 10 * sec, 5 * sec);
  k.now += 10 * sec;
  CHECK_FALSE(k.holds('a'));
  CHECK_FALSE(k.state.renew(named('a'), 10 * sec, k.now));
  CHECK_FALSE(k.release('a'));
  CHECK(k.x('b') == "W0");
  CHECK(k.leased('a', 10 * sec) == "W1");  // not even itself
  k.now += 5 * sec - 1;
  CHECK(k.x('b') == "W0");
  k.now += 1;
  CHECK(k.x('b') == "G2");
}

TEST_CASE("a lock-delay follows a death, never a release or an operator's decision") {
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
  CHECK(k.state.vanish(k.ticket('d'), k.now));  // no delay: open at once
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

TEST_CASE("proof of death removes a waiter, and concerns nobody else") {
  Scene k;
  k.x('a'), k.x('b'), k.x('c');
  CHECK_FALSE(k.state.vanish(99, k.now));
  CHECK(k.state.vanish(k.ticket('b'), k.now));
  CHECK(k.queue() == "c");
  CHECK(k.holds('a'));
  CHECK(k.x('b') == "W1");  // a new place, at the end
}

TEST_CASE("a silent waiter is dropped, one that asks is alive") {
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
  CHECK(k.acquire(b) == "W0");  // late, but nobody had noticed: whoever asks is alive
  k.now += 10 * sec;
  CHECK(k.x('c') == "W0");  // c noticed
  CHECK(k.acquire(b) == "W1");
}

TEST_CASE("an invitation goes to each who may run, once, and ends when it is not claimed") {
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
  CHECK(k.invite(10 * sec) == "cd");  // b did not come
  CHECK(k.queue() == "cd");
  CHECK(k.s('c') == "G2");
  CHECK(k.s('d') == "G3");
  CHECK(k.state.oldest_invitation_ends() == never);
}

TEST_CASE("whoever was told and could not run is told again") {
  Scene k;
  k.x('a'), k.x('b');
  k.release('a');
  CHECK(k.invite() == "b");
  k.state.holders.push_back(LockState::Holder{
      .owner = named('z'), .ticket = 77, .token = 9, .deadline = never, .meta = "z"});  // as if b were told in vain
  CHECK(k.x('b') == "W0");
  CHECK(k.state.oldest_invitation_ends() == never);
  k.release('z');
  CHECK(k.invite() == "b");
}

TEST_CASE("an invitation never lengthens a waiter's time, and one whose time is up is passed over") {
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

TEST_CASE("free_at knows of a silent waiter that bars the way") {
  Scene k;
  auto w = Scene::ask('w');
  w.patience = 5 * sec;
  k.s('a'), k.acquire(w);
  const auto answer = k.state.acquire(Scene::ask('r', Mode::shared), k.now);
  CHECK(std::get<LockState::Waiting>(answer).free_at == k.now + 5 * sec);
  k.now += 5 * sec;
  CHECK(k.invite() == "r");
}

TEST_CASE("an operator removes the holder with a token, or all, and the fence stays") {
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

TEST_CASE("who and what is kept for people") {
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
