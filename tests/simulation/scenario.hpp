// SPDX-License-Identifier: Apache-2.0
// Who wants the lock, when and for how long; and what comes of it under a Schedule.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "simulation/party.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

struct Round {
  Nanos pause = 0;  // before it
  RunPlan plan;
};

struct Scenario {
  using Kind = StoreKind;
  Kind kind = Kind::redis;
  std::uint64_t seed = 1;
  Nanos longest_ttl = 0, grace = 0;
  Nanos faults_until = 0;
  std::uint64_t unconfirmed_one_in = 0;      // replicas that miss a grant
  bool uniform = false;                      // every latency is the same, every clock runs alike
  std::vector<std::vector<Round>> machines;  // one dlock after the other on each

  // One client, with a job of half a ttl.
  static Scenario bare(Kind, Nanos ttl);
  static Scenario random(std::uint64_t seed, Kind);
};

std::unique_ptr<Server> make_server(const Scenario&, World&, Ledger&);

struct Outcome {
  std::optional<std::string> broken;  // the first invariant
  std::vector<Decision> decisions;    // those that were faults
  std::vector<SessionSlot> story;
  std::uint64_t grants = 0, jobs = 0, overlaps_excused = 0, stale_writes_refused = 0;
  bool cut_short = false;
};

// Called at each point where a fault may come, with a hash of the whole state; false ends the
// simulation.
using Look = std::function<bool(std::uint64_t number, Point, std::uint64_t state)>;

// On a thread of its own, because the libraries under test have random numbers per thread.
Outcome simulate(const Scenario&, Schedule&, bool told = false, const Look& look = {});

// The story for people: time, who, what.
std::string text(const std::vector<SessionSlot>& story);

}  // namespace dlock::simulation
