// SPDX-License-Identifier: Apache-2.0
// What the tests of LockState share: a lock, a clock and contenders of one letter. Time is in
// seconds here.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include "core/lock_state.hpp"

namespace dlock::test {

inline constexpr Micros sec = 1'000'000;

inline Owner named(char name) {
  Owner o;
  o.bytes[0] = static_cast<std::uint8_t>(name);
  return o;
}

// A lock and a clock; contenders are single letters.
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
    if (const auto* g = std::get_if<LockState::Granted>(&answer))
      return "G" + std::to_string(g->token);
    if (const auto* w = std::get_if<LockState::Waiting>(&answer))
      return "W" + std::to_string(w->rank);
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

}  // namespace dlock::test
