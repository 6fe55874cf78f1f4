// SPDX-License-Identifier: Apache-2.0
// What the command line asks of bench/: everything is checked before a Plan exists.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "bench/figures.hpp"
#include "store/factory.hpp"

namespace dlock::bench {

// A backend and a recipe, under the prefix of this run.
struct Target {
  std::string backend;  // family: "redis"; with a number when it occurs with another URL: "redis#2"
  std::string recipe;
  // begins the keys of this target, so that two recipes of one store use different keys
  std::string tag;
  const Traits* traits = nullptr;
  std::function<Duration(Duration ttl)> proven_of;  // null: all but drift
  // this host, through the network stack
  bool loopback = false;
  // may be called by several threads at once
  std::function<Result<std::unique_ptr<Backend>>(const Settings&)> open;
};

struct Plan : Measurement {
  std::vector<Target> targets;
  Duration ttl{30'000'000}, crash_ttl{5'000'000};
  Settings settings;  // without interrupt_fd
  bool bar = false;   // progress as one line that is redrawn, on a terminal
  bool quiet = false;
};

// The warm-up before a measurement, which is not measured.
constexpr Duration warm_up(const Plan& p) noexcept {
  return std::min<Duration>(std::chrono::seconds{1}, p.duration / 5);
}

// Measures every scenario on every target, `repeat` times, alternating, so that changes of this
// machine's speed affect all alike. Call it before any thread exists; it leaves none behind. An
// Error: a prefix that is not empty (usage), a store that cannot be reached. Everything written to
// the stores is removed in every case. A signal ends it early: Report::signal. The first violation
// of exclusion ends it, too.
Result<Report> run(const Plan&);

}  // namespace dlock::bench
