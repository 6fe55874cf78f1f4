// SPDX-License-Identifier: Apache-2.0
#include "cli/options/bench_options.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "cli/options/options.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

std::string all_scenarios() {
  std::string names;
  for (const bench::ScenarioInfo& i : bench::scenarios()) names += fmt::format("{}, ", i.name);
  return names + "all";
}

}  // namespace

Result<void> bench_scenarios(Options& o, std::string_view value) {
  auto& chosen = o.bench.scenarios;
  const auto choose = [&](bench::Scenario s) {
    if (std::find(chosen.begin(), chosen.end(), s) == chosen.end()) chosen.push_back(s);
  };
  for (;;) {
    const std::string_view name = value.substr(0, value.find(','));
    const auto found = bench::find_scenario(name);
    if (!found && name != "all")
      return fail(Errc::usage, fmt::format("{} is not a scenario; allowed are {}", quoted(name),
                                           all_scenarios()));
    if (found) choose(*found);
    else
      for (const bench::ScenarioInfo& i : bench::scenarios()) choose(i.scenario);
    if (name.size() == value.size()) return {};
    value.remove_prefix(name.size() + 1);
  }
}

}  // namespace dlock::cli
