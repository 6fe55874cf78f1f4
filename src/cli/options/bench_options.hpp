// SPDX-License-Identifier: Apache-2.0
// The values of the options of `dlock bench`.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "bench/scenario.hpp"

namespace dlock::cli {

struct Options;

struct BenchOptions {
  std::vector<std::string_view> backends, recipes;  // empty: the default one
  std::vector<bench::Scenario> scenarios;           // empty: uncontended, handoff
  unsigned clients = 8, repeat = 1;
  std::optional<Duration> duration;
  std::uint64_t ops = 0, rate = 0;
  Duration hold{}, progress{};
  bool no_progress = false;
  std::string_view prefix, html;
};

// Setters of the option table. Those of the other options are templates of setters.hpp.
Result<void> bench_scenarios(Options&, std::string_view);  // names with commas between

}  // namespace dlock::cli
