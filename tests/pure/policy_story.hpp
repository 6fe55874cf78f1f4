// SPDX-License-Identifier: Apache-2.0
// What the tests of Policy share: a simulated clock, and what the last event led to.
#pragma once
#include <catch2/catch.hpp>
#include <optional>
#include "core/exit_status.hpp"
#include "run/policy.hpp"

namespace dlock::run::test {

using namespace std::chrono_literals;
using Do = Action::Do;
using Note = Action::Note;

inline constexpr Deadline start{std::chrono::hours{1}};

// Policy sees of ttl 30 s: proven 29.698 s, margin 1.485 s, kill_after 5 s.
struct Asked : Plan {
  bool same_group = false, session_leader = false;
};
inline Asked leased() {
  static char word[] = "job";
  static char* const command[] = {word, nullptr};
  Asked r{{.open = {}, .traits = {}, .request = {.key = Key::parse("k").value()}}};
  r.command = command;
  r.timing = {29'698ms, 9'899ms, 4'949ms, 5s, 1'485ms, true};
  return r;
}
inline Asked attached() {
  Asked r = leased();
  r.timing.leased = false;
  return r;
}

inline event::Acquired granted_until(Deadline d) {
  return {{Lease{.key = Key::parse("k").value(), .owner = {}, .deadline = d}}};
}

struct Story {
  const Asked asked;
  Policy policy;
  Deadline now = start;
  Actions last{};

  explicit Story(const Asked& r) : asked(r), policy(asked, r.same_group, r.session_leader) {}
  Story& see(const Event& e) {
    last = policy.step(e, now);
    return *this;
  }
  Story& after(Duration d) {
    now = later(now, d);
    return *this;
  }
  Story& at(Duration d) {
    now = start + d;
    return *this;
  }
  Story& tick() { return see(event::Tick{}); }
  // Advances to the time of the policy's alarm.
  Story& alarm() {
    REQUIRE(policy.wake_at() != no_deadline);
    now = std::max(now, policy.wake_at());
    return tick();
  }
  Story& answered() { return see(Waiting{.holder = {}, .sent_at = now}); }
  Story& granted(Duration lease = 29'698ms) { return see(granted_until(later(now, lease))); }
  Story& running() { return granted().see(event::JobStarted{}); }
  Story& running_attached() { return see(granted_until(no_deadline)).see(event::JobStarted{}); }
  Story& exits(int code) { return see(event::JobExited{code << 8}); }
  Story& dead(int status, bool expired = false) { return see(event::TreeDead{status, expired}); }
  Story& left(int status, bool expired = false) { return see(event::TreeLeft{status, expired}); }
  Story& finishes(int code) { return exits(code).dead(code << 8); }
  Story& released() { return see(event::ReleaseDone{true}); }
  Story& signal(int number) { return see(event::Signal{number, false}); }  // of a process

  bool does(Do what, int number = 0) const {
    for (const Action& a : last)
      if (a.what == what && a.number == number) return true;
    return false;
  }
  bool says(Note note) const {
    for (const Action& a : last)
      if (a.what == Do::say && a.note == note) return true;
    return false;
  }
  std::optional<Outcome> outcome() const {
    for (const Action& a : last)
      if (a.what == Do::end) return a.outcome;
    return {};
  }
  bool ends_with(int code) const {
    return outcome() && !outcome()->by_signal && outcome()->value == code;
  }
  bool dies_by(int signal) const {
    return outcome() && outcome()->by_signal && outcome()->value == signal;
  }
};

}  // namespace dlock::run::test
