// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include "simulation/scenario.hpp"

namespace dlock::simulation {

// A schedule under which an invariant breaks, without the faults that are not needed for it.
struct Finding {
  std::string broken;
  std::vector<Decision> decisions;
  std::string report;  // the invariant, the faults, the story
};

// The scenario and the faults of this seed. `grants`, if given, is added to.
struct Tally {
  std::uint64_t grants = 0, jobs = 0, faults = 0, overlaps_excused = 0, stale_writes_refused = 0;
};
std::optional<Finding> try_seed(std::uint64_t seed, Scenario::Kind, Tally& tally);

// Leaves out one fault after the other as long as an invariant still breaks.
Finding smallest(const Scenario&, std::vector<Decision>);

// Every schedule of at most `faults` faults for this scenario. Two schedules that lead to the same
// state are continued once. Ends at the first finding.
// all: each kind of fault, with a span of half a ttl and one of more than a ttl. few: requests are
// late by half a ttl, or the store is empty behind them; replies are lost; dlock is stopped for
// more than a ttl, or killed.
enum class Kinds { all, few };
struct Explored {
  std::uint64_t simulations = 0, states = 0, cut_short = 0;
  std::optional<Finding> finding;
};
Explored explore(const Scenario&, unsigned faults, Kinds);

}  // namespace dlock::simulation
