// SPDX-License-Identifier: Apache-2.0
#include "run/environment.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include "core/text.hpp"
#include "run/lines.hpp"
#include "run/process.hpp"

namespace dlock::run {

Variables grant_variables(const Traits& traits, const Lease& lease, const Handle& handle,
                          Duration ttl) {
  Variables all{{"DLOCK_KEY", lease.key.text()},
                {"DLOCK_TOKEN", std::to_string(lease.token)},
                {"DLOCK_SEQUENCER", Sequencer::of(traits.family, traits.recipe, lease).text()},
                {"DLOCK_HANDLE", handle.text()},
                {"DLOCK_TTL_MS", std::to_string(ttl / std::chrono::milliseconds{1})}};
  if (lease.mode == Mode::permit) all.emplace_back("DLOCK_SLOT", std::to_string(lease.slot));
  return all;
}

std::string job_environment(const Plan& plan, const std::vector<Lease>& leases, pid_t guard) {
  std::string out;
  const auto set = [&](std::string_view name, std::string_view value) {
    out.append(name).append("=").append(value).push_back('\0');
  };
  const auto remove = [&](std::string_view name) { out.append(name).push_back('\0'); };
  remove("DLOCK_PASSWORD");
  if (plan.publish_id) {
    std::string runs;
    for (const std::string& run : runs_around()) runs += run + ':';
    set("DLOCK_RUNS", runs + plan.id);
  }
  if (!plan.publish_environment) return out;

  const std::string_view family = plan.traits.family, recipe = plan.traits.recipe;
  const Handle whole = Handle::of(family, recipe, leases);
  set("DLOCK_HELD", "1");
  remove("DLOCK_SLOT");  // of a dlock around this one
  for (const auto& [name, value] :
       grant_variables(plan.traits, leases.front(), whole, plan.request.ttl))
    set(name, value);

  // A nested dlock also needs the handle, and the process that must be its ancestor. (Loading a
  // JSON library at every start costs more than the rest of this file.)
  const auto process = process_stat(guard);
  const std::string stands_behind =
      fmt::format(R"("guard":{{"pid":{},"start":{}}})", guard, process ? process->id.start : 0);
  std::string grants;
  for (const Lease& l : leases) {
    const bool permit = l.mode == Mode::permit;
    grants += fmt::format(
        R"({}{{"key":"{}","token":{},"sequencer":"{}","mode":"{}","slot":{},"limit":{},)"
        R"("handle":"{}","place":"{}",{}}})",
        grants.empty() ? "" : ",", escaped(l.key.text()), l.token,
        Sequencer::of(family, recipe, l).text(), static_cast<char>(l.mode),
        permit ? std::to_string(l.slot) : "null",
        permit ? std::to_string(plan.request.limit) : "null",
        Handle::of(family, recipe, {l}).text(), escaped(plan.place), stands_behind);
  }
  for (const auto& [key, text] : plan.inherited_grants)  // of our ancestors, for nested dlocks
    if (std::none_of(leases.begin(), leases.end(),
                     [&, &k = key](const Lease& l) { return l.key == k; }))
      grants += "," + text;
  set("DLOCK_GRANTS", fmt::format("[{}]", grants));
  return out;
}

std::vector<std::string> runs_around() {
  std::vector<std::string> found;
  const char* text = std::getenv("DLOCK_RUNS");
  for (std::string_view rest = text ? text : ""; !rest.empty();)
    if (const auto run = Owner::parse(next_part(rest, ':'))) found.push_back(run->hex());
  return found;
}

std::vector<char*> changed_environment(std::string& changes) {
  std::vector<char*> all;
  for (char** entry = environ; entry && *entry; ++entry) all.push_back(*entry);
  for (std::size_t at = 0; at < changes.size(); at = changes.find('\0', at) + 1) {
    const std::string_view change = &changes[at];
    const std::string_view name = change.substr(0, change.find('='));
    std::erase_if(all, [=](std::string_view entry) {
      return entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
    });
    if (name != change) all.push_back(&changes[at]);
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace dlock::run
