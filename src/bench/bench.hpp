// SPDX-License-Identifier: Apache-2.0
// The interface of bench/. The command line makes a Plan only after it has checked everything.
#pragma once
#include <functional>
#include <string>
#include <vector>
#include "bench/figures.hpp"
#include "store/factory.hpp"

namespace dlock::bench {

// A backend and a recipe, under the prefix of this run.
struct Target {
  // The family, such as "redis". If another URL has the same family, a number follows: "redis#2".
  std::string backend;
  std::string recipe;
  // The prefix of this target's keys, so that two recipes of one store use different keys.
  std::string tag;
  const Traits* traits = nullptr;
  // As Traits::proven_of(). Null: the result is ttl - drift(ttl).
  std::function<Duration(Duration ttl)> proven_of;
  // the server is on this host, and reached through the network stack
  bool loopback = false;
  // may be called by several threads at once
  Opener open;
};

struct Plan : Measurement {
  std::vector<Target> targets;
  Duration ttl{30'000'000}, crash_ttl{5'000'000};
  Duration op_timeout{5'000'000}, connect_timeout{5'000'000};
  bool bar = false;  // show progress as one line that is redrawn, as on a terminal
  bool quiet = false;
};

// Returns the length of the warm-up before a measurement. The warm-up is not measured.
constexpr Duration warm_up(const Plan& p) noexcept {
  return std::min<Duration>(std::chrono::seconds{1}, p.duration / 5);
}

// Measures every scenario on every target, `repeat` times. Targets take turns, so that a change of
// this machine's speed affects all of them. Call it before any thread exists; when it returns, no
// thread is left. It removes everything that it wrote to the stores, in every case. A signal ends
// the benchmark early (Report::signal), and so does the first violation of exclusion. An Error: a
// store has keys below the prefix (usage), or cannot be reached.
Result<Report> run(const Plan&);

}  // namespace dlock::bench
