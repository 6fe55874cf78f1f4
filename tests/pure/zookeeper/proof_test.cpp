// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/proof.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::zookeeper;
using namespace std::chrono_literals;

namespace {

constexpr Deadline zero{std::chrono::hours{1}};
constexpr Duration timeout = 10s, rtt = 1ms;
Duration after(const Proof& p, Deadline from) {
  return std::chrono::duration_cast<Duration>(p.until() - from);
}

Proof fresh(Duration tick) {
  Proof p{tick};
  p.attached(zero, zero + rtt, timeout);
  p.committed(zero + rtt, zero + 2 * rtt);
  return p;
}
// A renewal: two writes, one after the other.
void renew(Proof& p, Deadline at) {
  p.committed(at, at + rtt);
  p.committed(at + rtt, at + 2 * rtt);
}

}  // namespace

TEST_CASE("a session is proven from its creation on, once a write was committed in it") {
  Proof p{Duration{}};
  p.attached(zero, zero + rtt, timeout);
  CHECK(p.until() == Deadline{});
  p.committed(zero, zero + rtt);  // sent before the reply: the servers may have got it first
  CHECK(p.until() == Deadline{});
  p.committed(zero + rtt, zero + 2 * rtt);
  CHECK(p.until() == lease_end(zero, timeout));
}

TEST_CASE("replies alone, or a single write, extend no proof") {
  Proof p = fresh(1s);
  for (int i = 1; i < 50; ++i) p.note_answer(zero + i * 100ms, zero + i * 100ms + rtt);
  CHECK(p.until() == lease_end(zero, timeout));
  p.committed(zero + 5s, zero + 5s + rtt);
  CHECK(p.until() == lease_end(zero, timeout));
}

TEST_CASE("two writes prove a request sent and answered half a tick before the first of them") {
  Proof p = fresh(1s);
  for (int i = 1; i < 50; ++i) p.note_answer(zero + i * 100ms, zero + i * 100ms + rtt);
  renew(p, zero + 5s);
  CHECK(after(p, zero) <= 4500ms + timeout - drift(timeout));  // half a tick
  CHECK(after(p, zero) >= 4000ms + timeout - drift(timeout));
  // The second was sent before the reply to the first: it proves no more than the first.
  Proof q = fresh(1s);
  q.note_answer(zero + 4s, zero + 4s + rtt);
  q.committed(zero + 5s, zero + 6s);
  q.committed(zero + 5s + rtt, zero + 6s);
  CHECK(q.until() == lease_end(zero, timeout));
}

TEST_CASE("renewals at the start rule's pace prove at least its figure") {
  for (const Duration lock_delay : {0s, 1s, 10s, 60s})
    for (const Duration tick :
         {Duration{}, Duration{200ms}, Duration{1s}, Duration{2s}, Duration{3s}}) {
      CAPTURE(tick.count(), lock_delay.count());
      const Duration counted_on = proven_of(timeout, lock_delay, tick);
      if (counted_on < 1s) {  // the start rule refuses it
        CHECK(lock_delay >= 10s);
        continue;
      }
      Proof p{tick};
      p.attached(zero, zero + rtt, timeout + lock_delay);
      p.committed(zero + rtt, zero + 2 * rtt);
      Deadline sent = zero;
      for (int i = 0; i < 60; ++i) {
        const Deadline before = p.until();
        sent += counted_on / 3 + 5ms;
        // at the time of a renewal
        CHECK(before - lock_delay - sent > 2 * counted_on / 3 - 20ms);
        renew(p, sent);
        CHECK(p.until() >= before);
        CHECK(after(p, sent) - lock_delay >= counted_on - 20ms);
        CHECK(after(p, sent) <= timeout + lock_delay);
      }
    }
}

TEST_CASE("after a long silence two writes extend no proof; a resumed session is proven at once") {
  Proof p = fresh(2s);
  renew(p, zero + 9s);
  CHECK(p.until() == lease_end(zero, timeout));
  p.attached(zero + 10s, zero + 10s + rtt, timeout);
  CHECK(p.until() == lease_end(zero, timeout));
  p.committed(zero + 10s + rtt, zero + 10s + 2 * rtt);
  CHECK(p.until() == lease_end(zero + 10s, timeout));
}

TEST_CASE("a session resumed with a shorter timeout is proven for less") {
  Proof p = fresh(Duration{});
  p.attached(zero + 1s, zero + 1s + rtt, 2s);
  CHECK(p.until() == lease_end(zero + 1s, 2s));
  p.committed(zero + 500ms, zero + 2s);  // sent before that
  CHECK(p.until() == lease_end(zero + 1s, 2s));
}

// ---- a simulation of the servers in steps of 1 ms, with the worst network and stops ----------

namespace {

struct Model {
  explicit Model(std::uint64_t seed) : random{seed} {}

  struct Message {
    enum { request, ping, answer } what;
    int write = 0;  // of a reply or request; 0: a read
    int sent = 0;   // of a request, by the client
    int arrives = 0;
    int touch = -1;  // of a ping's reply: the session was touched
  };
  static constexpr int timeout = 1000, tick = 200;
  test::Random random;
  int now = 0;
  std::deque<Message> to_leader, to_follower;  // in order
  int delay_up = 1, delay_down = 1;
  int leader_runs_from = 0;  // it is stopped until then
  int next_ping = 0;
  bool cut_up = false;
  bool heard_of = false;                             // the follower has the session on its list
  int touched = 0;                                   // by the leader
  std::vector<std::pair<int, Message>> to_majority;  // writes that wait for a majority

  int any(int most) { return static_cast<int>(random.below(static_cast<std::uint64_t>(most))); }

  static void push(std::deque<Message>& line, Message m, int at) {
    m.arrives = line.empty() ? at : std::max(at, line.back().arrives);
    line.push_back(m);
  }

  void client_asks(int write) {  // the client's server has no delay to it
    heard_of = true;
    if (!cut_up) push(to_leader, {Message::request, write, now}, now + delay_up);
  }

  // Replies to writes that reach the client in this millisecond.
  std::vector<Message> step() {
    ++now;
    if (now >= leader_runs_from) {
      if (now >= next_ping) {  // due expiries first (assumption B)
        push(to_follower, {Message::ping}, now + delay_down);
        next_ping = now + tick / 2;
      }
      while (!to_majority.empty() && to_majority.front().first <= now) {
        push(to_follower, to_majority.front().second, now + delay_down);
        to_majority.erase(to_majority.begin());
      }
      while (!to_leader.empty() && to_leader.front().arrives <= now) {
        const Message m = to_leader.front();
        to_leader.pop_front();
        if (m.what == Message::ping && m.touch >= 0) touched = now;
        if (m.what == Message::request && touched + timeout > now)
          to_majority.push_back({now + 1, {Message::answer, m.write, m.sent}});
      }
    }
    std::vector<Message> answers;
    while (!to_follower.empty() && to_follower.front().arrives <= now) {
      const Message m = to_follower.front();
      to_follower.pop_front();
      if (m.what == Message::answer) answers.push_back(m);
      else if (!cut_up)
        push(to_leader, {Message::ping, 0, 0, 0, std::exchange(heard_of, false) ? 1 : -1},
             now + delay_up);
      else heard_of = false;
    }
    return answers;
  }
};

}  // namespace

TEST_CASE("under any delays and stops the leader does not end a session before its proven end") {
  const auto at = [](int ms) { return zero + std::chrono::milliseconds{ms}; };
  const std::uint64_t seed = test::seed();
  long proven = 0;
  for (unsigned run = 0; run < 4000; ++run) {
    Model m{seed + run};
    Proof p{std::chrono::milliseconds{Model::tick}};
    p.attached(at(0), at(1), std::chrono::milliseconds{Model::timeout});
    m.touched = m.now = 1;
    m.next_ping = 1 + m.any(Model::tick / 2);
    int write = 0, waits_for = 0, sent = 0, next = 1 + m.any(50), left = 2;
    const int pace = 60 + m.any(300), cut_with = 4 + m.any(20),
              cut_after = m.any(3);  // the link to the leader is cut just after a write passed it
    int cut_at = 3 * Model::timeout;
    for (; m.now < 3 * Model::timeout;) {
      if (m.any(150) == 0) m.delay_down = m.any(2) ? 1 : 1 + m.any(400);
      if (m.any(150) == 0) m.delay_up = m.any(2) ? 1 : 1 + m.any(100);
      if (m.any(300) == 0 && m.now >= m.leader_runs_from) m.leader_runs_from = m.now + m.any(700);
      if (m.now == cut_at) m.cut_up = true;
      if (waits_for == 0 && m.now >= next) {
        sent = m.now;
        m.client_asks(waits_for = ++write);
        if (write == cut_with) cut_at = m.now + cut_after;
      }
      for (const auto& a : m.step()) {
        if (a.write != waits_for) continue;
        p.committed(at(sent), at(m.now));
        waits_for = 0;
        next = --left > 0 ? m.now : sent + pace;
        if (left == 0) left = 2;
        proven += p.until() > lease_end(at(0), std::chrono::milliseconds{Model::timeout});
      }
    }
    // With that link cut the leader gets nothing more.
    CAPTURE(run);
    REQUIRE(p.until() <= at(m.touched + Model::timeout));
  }
  CHECK(proven > 4000);
}
