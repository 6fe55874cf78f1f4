// SPDX-License-Identifier: Apache-2.0
// The production Policy, Keeper and recipes under searched schedules. README.md beside this file
// says what is simulated.
//   DLOCK_TEST_SEED=N         this seed, with the whole story if an invariant breaks
//   DLOCK_TEST_SEEDS=N        so many of them (default 1,000), from a new random one
//   DLOCK_TEST_EXPLORED=N     exhaustively, all schedules of so many faults (default 1; 3: on
//   Redis,
//                             of few kinds, and of all kinds in the first second)
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include "pure/random.hpp"
#include "simulation/search.hpp"

using namespace dlock;
using namespace dlock::simulation;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t usual) {
  const char* set = std::getenv(name);
  return set && *set ? std::strtoull(set, nullptr, 10) : usual;
}

double seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Two clients, one key, a job each; faults within the first two ttls.
Scenario smallest_scenario(StoreKind kind) {
  Scenario s = Scenario::bare(kind, kind == StoreKind::zookeeper ? 6 * second : 2 * second);
  s.uniform = true;
  s.faults_until = 2 * s.longest_ttl;
  const RunPlan plan = s.machines[0][0].plan;
  s.machines.assign(2, {});
  for (std::size_t i = 0; i < 2; ++i)
    s.machines[i] = {{static_cast<Nanos>(i) * 100 * millisecond, plan}};
  return s;
}

void explore_all(const Scenario& scenario, unsigned faults, Kinds kinds) {
  const double began = seconds();
  const Explored explored = explore(scenario, faults, kinds);
  if (explored.finding) FAIL(explored.finding->report);
  WARN(
      "up to " << faults << (kinds == Kinds::few ? " faults of few kinds" : " faults")
               << fmt::format(" in {:.1f} s: ", static_cast<double>(scenario.faults_until) / second)
               << explored.states << " states, " << explored.simulations
               << " simulations, of which " << explored.cut_short
               << " ended at a state seen before, " << fmt::format("{:.1f} s", seconds() - began));
  CHECK(explored.states > 10);
}

unsigned faults_to_explore() {
  return static_cast<unsigned>(from_environment("DLOCK_TEST_EXPLORED", 1));
}

void try_seeds(Scenario::Kind kind) {
  const bool one = from_environment("DLOCK_TEST_SEED", 0) != 0;
  const std::uint64_t first = test::seed();
  const std::uint64_t count = one ? 1 : from_environment("DLOCK_TEST_SEEDS", 1000);
  Tally tally;
  const double began = seconds();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto found = try_seed(seed, kind, tally);
    if (found) FAIL("DLOCK_TEST_SEED=" << seed << " repeats this\n" << found->report);
  }
  const double took = seconds() - began;
  // otherwise the run would prove little
  if (!one) {
    CHECK(tally.grants > count);
    CHECK(tally.faults > count);
  }
  WARN(count << " seeds in "
             << fmt::format("{:.1f} s, {:.0f} per second", took, static_cast<double>(count) / took)
             << ": " << tally.grants << " grants, " << tally.jobs << " jobs, " << tally.faults
             << " faults; where the token alone protects: " << tally.overlaps_excused
             << " overlaps, " << tally.stale_writes_refused << " stale writes refused");
}

}  // namespace

TEST_CASE("random schedules break no invariant of redis, fair", "[random][redis]") {
  try_seeds(Scenario::Kind::redis);
}
TEST_CASE("random schedules break no invariant of zookeeper, sequential", "[random][zookeeper]") {
  try_seeds(Scenario::Kind::zookeeper);
}

TEST_CASE("random schedules break no invariant of file, lease", "[random][file]") {
  try_seeds(Scenario::Kind::file);
}

TEST_CASE("a seed determines the whole story", "[random]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto kind = static_cast<Scenario::Kind>(seed % 3);
    const Scenario scenario = Scenario::random(seed, kind);
    Random once{seed, scenario.longest_ttl, kind}, twice{seed, scenario.longest_ttl, kind};
    const Outcome first = simulate(scenario, once, true), second = simulate(scenario, twice, true);
    CAPTURE(seed);
    CHECK_FALSE(first.story.empty());
    CHECK(text(first.story) == text(second.story));
    Listed again{first.decisions};
    CHECK(text(simulate(scenario, again, true).story) == text(first.story));
  }
}

TEST_CASE("redis: every schedule of few faults, two clients and one key", "[explored][redis]") {
  const unsigned faults = faults_to_explore();
  Scenario scenario = smallest_scenario(StoreKind::redis);
  explore_all(scenario, std::min(2U, faults), Kinds::all);
  if (faults <= 2) return;
  explore_all(scenario, faults, Kinds::few);
  // three of every kind at any time would take hours
  scenario.faults_until = second;
  explore_all(scenario, faults, Kinds::all);
}

TEST_CASE("zookeeper: every schedule of few faults", "[explored][zookeeper]") {
  explore_all(smallest_scenario(StoreKind::zookeeper), std::min(2U, faults_to_explore()),
              Kinds::all);
}
