// SPDX-License-Identifier: Apache-2.0
// What the tests of Policy share: a simulated clock, and what the last event led to.
#pragma once
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>
#include "core/exit_status.hpp"
#include "run/policy.hpp"

namespace dlock::run::test {

using namespace std::chrono_literals;

inline constexpr Deadline start{std::chrono::hours{1}};

// Policy sees of ttl 30 s: proven 29.698 s, margin 1.485 s, kill_after 5 s.
struct Asked : Plan {
  JobGroup group_of_job = JobGroup::own;
  SessionRole role = SessionRole::member;
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

template <class Kind, class What>
void collect(const What& a, std::vector<Kind>& out) {
  if constexpr (std::is_same_v<What, Kind>) out.push_back(a);
  else if constexpr (std::is_same_v<What, Action> || std::is_same_v<What, KeeperAction>)
    std::visit([&out](const auto& what) { collect(what, out); }, a);
}

struct Story {
  const Asked asked;
  Policy policy;
  Deadline now = start;
  Actions last{};

  explicit Story(const Asked& r) : asked(r), policy(asked, r.group_of_job, r.role) {}
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
  Story& answered() { return see(event::StillWaiting{{.holder = {}, .sent_at = now}}); }
  Story& granted(Duration lease = 29'698ms) { return see(granted_until(later(now, lease))); }
  Story& running() { return granted().see(event::JobStarted{}); }
  Story& running_attached() { return see(granted_until(no_deadline)).see(event::JobStarted{}); }
  Story& exits(int code) { return see(event::JobExited{code << 8}); }
  Story& dead(int status, bool expired = false) { return see(event::TreeDead{status, expired}); }
  Story& left(int status, bool expired = false) { return see(event::TreeLeft{status, expired}); }
  Story& finishes(int code) { return exits(code).dead(code << 8); }
  Story& released() { return see(event::ReleaseDone{true}); }
  Story& signal(int number) { return see(event::Signal{number, false}); }  // of a process

  // The actions of this kind that the last event led to.
  template <class Kind>
  std::vector<Kind> actions() const {
    std::vector<Kind> found;
    for (const Action& a : last) collect(a, found);
    return found;
  }
  template <class Kind>
  bool does() const {
    return !actions<Kind>().empty();
  }
  template <class Kind>
  bool does(int signal) const {
    const auto found = actions<Kind>();
    return std::any_of(found.begin(), found.end(),
                       [signal](const Kind& a) { return a.signal == signal; });
  }
  bool says(Note note) const {
    const auto found = actions<action::Announce>();
    return std::any_of(found.begin(), found.end(),
                       [note](const action::Announce& a) { return a.note == note; });
  }
  std::optional<Outcome> outcome() const {
    const auto found = actions<action::End>();
    return found.empty() ? std::nullopt : std::optional(found.front().outcome);
  }
  bool ends_with(int code) const {
    return outcome() && !outcome()->by_signal && outcome()->value == code;
  }
  bool dies_by(int signal) const {
    return outcome() && outcome()->by_signal && outcome()->value == signal;
  }
};

}  // namespace dlock::run::test
