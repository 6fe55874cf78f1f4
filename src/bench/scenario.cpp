// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario.hpp"

namespace dlock::bench {
namespace {

constexpr ScenarioInfo all[] = {
    {Scenario::uncontended, "uncontended", "each client takes and releases a key of its own"},
    {Scenario::handoff, "handoff", "all clients want one key"},
    {Scenario::shared, "shared", "all clients want one key, nine of ten times shared"},
    {Scenario::limit, "limit", "all clients want one of half as many permits"},
    {Scenario::renew, "renew", "each client renews 16 leases as fast as it can"},
    {Scenario::crash, "crash", "the holder is killed with -9 right after its grant; one waits"},
};

}  // namespace

std::span<const ScenarioInfo> scenarios() noexcept { return all; }
std::string_view name_of(Scenario s) noexcept { return all[static_cast<std::size_t>(s)].name; }
std::optional<Scenario> find_scenario(std::string_view name) noexcept {
  for (const ScenarioInfo& i : all)
    if (i.name == name) return i.scenario;
  return std::nullopt;
}

std::string_view cannot(const Traits& t, Scenario s) noexcept {
  if (s == Scenario::shared && !t.shared) return "no shared locks";
  if (s == Scenario::limit && !t.permits) return "no permits";
  if (s == Scenario::renew && t.liveness == Liveness::process) return "nothing to renew";
  return {};
}

}  // namespace dlock::bench
