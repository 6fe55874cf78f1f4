// SPDX-License-Identifier: Apache-2.0
#include "simulation/world.hpp"
#include <algorithm>

namespace dlock::simulation {

Nanos Machine::when(Nanos shown) const noexcept {
  const Nanos passed = shown - started;
  if (passed <= 0) return 0;
  Nanos t = passed - passed / 1000 * ppm / 1000;
  while (clock(t) < shown) t += std::max<Nanos>(1, shown - clock(t));
  return t;
}

void World::at(Nanos when, std::uint64_t tag, std::function<void()> what) {
  due_.emplace(std::pair{std::max(when, now_), ++made_}, Due{tag, std::move(what)});
}

void World::run(const std::function<bool()>& done, Nanos until) {
  while (!due_.empty() && !broken_ && !cut_short_ && !done()) {
    auto first = due_.extract(due_.begin());
    now_ = first.key().first;
    if (now_ > until)
      return broken("liveness: something still goes on at the end of the simulation");
    first.mapped().what();
  }
}

Fault World::ask(Point where) {
  if (!faults_may_come() || broken_ || cut_short_) return {};
  ++points_;
  if (on_point && !on_point(points_, where)) {
    cut_short_ = true;
    return {};
  }
  const Fault fault = schedule_.decide(points_, where);
  if (fault.kind == Fault::Kind::none) return fault;
  decisions_.push_back({points_, fault});
  fault_lasts_until(now_ + fault.span);
  return fault;
}

void World::say(std::string who, std::string what) {
  if (told_) story_.push_back({now_, std::move(who), std::move(what)});
}

void World::broken(std::string invariant) {
  if (broken_) return;
  say("BROKEN", invariant);
  broken_ = std::move(invariant);
}

std::uint64_t World::due_hash() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [when, due] : due_)
    if (due.tag != 0) sum += mixed(static_cast<std::uint64_t>(when.first), due.tag);
  return sum;
}

Nanos World::latency() noexcept {
  if (uniform) return millisecond;
  const Nanos least = millisecond / 10;
  return dice.one_in(20) ? dice.span(millisecond, 30 * millisecond)
                         : least + static_cast<Nanos>(dice.below(millisecond));
}

World*& World::current() noexcept {
  static thread_local World* world = nullptr;
  return world;
}

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

}  // namespace dlock::simulation
