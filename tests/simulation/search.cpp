// SPDX-License-Identifier: Apache-2.0
#include "simulation/search.hpp"
#include <fmt/format.h>
#include <unordered_map>
#include <utility>

namespace dlock::simulation {

using Kind = Fault::Kind;

std::optional<Finding> try_seed(std::uint64_t seed, Scenario::Kind kind, Tally& tally) {
  const Scenario scenario = Scenario::random(seed, kind);
  Random schedule{seed, scenario.longest_ttl, kind};
  const Outcome outcome = simulate(scenario, schedule);
  tally.grants += outcome.grants;
  tally.jobs += outcome.jobs;
  tally.faults += outcome.decisions.size();
  tally.overlaps_excused += outcome.overlaps_excused;
  tally.stale_writes_refused += outcome.stale_writes_refused;
  if (!outcome.broken) return std::nullopt;
  return smallest(scenario, outcome.decisions);
}

Finding smallest(const Scenario& scenario, std::vector<Decision> decisions) {
  const auto tried = [&](const std::vector<Decision>& some) {
    Listed schedule{some};
    return simulate(scenario, schedule, true);
  };
  for (std::size_t i = decisions.size(); i-- > 0;) {
    auto without = decisions;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (tried(without).broken) decisions = std::move(without);
  }
  const Outcome outcome = tried(decisions);
  Finding found{outcome.broken.value_or("the schedule does not repeat itself"), decisions, {}};
  found.report = found.broken + "\nfaults:\n";
  for (const Decision& d : decisions)
    found.report += fmt::format("  at point {}: {}\n", d.number, text(d.fault));
  found.report += "what happened:\n" + text(outcome.story);
  return found;
}

namespace {

std::vector<Fault> of_request(StoreKind store, Nanos soon, Nanos long_after) {
  std::vector<Fault> all{
      {Kind::late, soon},       {Kind::late, long_after}, {Kind::lost, 0},           {Kind::cut, 0},
      {Kind::restart_first, 0}, {Kind::restart_then, 0},  {Kind::freeze, long_after}};
  if (store == StoreKind::redis) {
    all.push_back({Kind::evict, 0});
    all.push_back({Kind::fail_over, 100 * millisecond});
  }
  return all;
}

std::vector<Fault> faults_at(Point where, const Scenario& scenario, Kinds kinds) {
  const Nanos ttl = scenario.longest_ttl, soon = ttl / 2, long_after = ttl + ttl / 5;
  const bool request = where == Point::request || where == Point::undo;
  if (kinds == Kinds::few) {
    if (where == Point::step) return {{Kind::stop, long_after}, {Kind::kill, 0}};
    if (request) return {{Kind::late, soon}, {Kind::restart_then, 0}};
    return {{Kind::lost, 0}};
  }
  switch (where) {
    case Point::dial: return {{Kind::lost, 0}};
    case Point::request:
    case Point::undo: return of_request(scenario.kind, soon, long_after);
    case Point::reply:
      return {{Kind::late, soon}, {Kind::late, long_after}, {Kind::lost, 0}, {Kind::cut, 0}};
    case Point::step: return {{Kind::stop, long_after}, {Kind::kill, 0}, {Kind::sleep, long_after}};
  }
  return {};
}

}  // namespace

Explored explore(const Scenario& scenario, unsigned faults, Kinds kinds) {
  Explored explored;
  std::unordered_map<std::uint64_t, unsigned> seen;  // with how many faults still allowed, plus one
  std::vector<std::vector<Decision>> open{{}};
  while (!open.empty()) {
    const std::vector<Decision> prefix = std::move(open.back());
    open.pop_back();
    const std::uint64_t last = prefix.empty() ? 0 : prefix.back().number;
    const unsigned left = faults - static_cast<unsigned>(prefix.size());
    const Look look = [&](std::uint64_t number, Point where, std::uint64_t state) {
      if (number <= last) return true;
      unsigned& best = seen[state];
      if (best > left) return false;  // all that may follow is looked at already
      best = left + 1;
      if (left == 0) return true;
      for (const Fault& fault : faults_at(where, scenario, kinds)) {
        open.push_back(prefix);
        open.back().push_back({number, fault});
      }
      return true;
    };
    Listed schedule{prefix};
    const Outcome outcome = simulate(scenario, schedule, false, look);
    ++explored.simulations;
    if (outcome.cut_short) ++explored.cut_short;
    if (outcome.broken) {
      explored.finding = smallest(scenario, prefix);
      break;
    }
  }
  explored.states = seen.size();
  return explored;
}

}  // namespace dlock::simulation
