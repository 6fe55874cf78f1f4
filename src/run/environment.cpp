// SPDX-License-Identifier: Apache-2.0
#include "run/environment.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include "core/text.hpp"
#include "job/inner_holds.hpp"
#include "job/process.hpp"
#include "report/lines.hpp"

namespace dlock::run {
namespace {

using Json = nlohmann::ordered_json;

// Any program may have written DLOCK_GRANTS, so each value is checked.
std::optional<std::uint64_t> number_of(const Json& j, const char* name) {
  const auto at = j.find(name);
  if (at == j.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<std::uint64_t>();
}
std::string text_of(const Json& j, const char* name) {
  const auto at = j.find(name);
  return at != j.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::optional<InheritedGrant> inherited(const Json& grant) {
  if (!grant.is_object()) return {};
  const auto key = Key::parse(text_of(grant, "key"));
  const auto handle = Handle::parse(text_of(grant, "handle"));
  const auto sequencer = Sequencer::parse(text_of(grant, "sequencer"));
  const auto guard = grant.find("guard");
  if (!key || !handle || !sequencer || guard == grant.end() || !guard->is_object()) return {};
  const auto pid = number_of(*guard, "pid"), start = number_of(*guard, "start");
  if (!pid || !start || *pid > 1U << 22U) return {};
  const ProcessId process{static_cast<pid_t>(*pid), *start};
  if (!is_ancestor(process)) return {};
  return InheritedGrant{
      .lease = {.key = *key,
                .owner = handle->lease(*key).owner,
                .mode = sequencer->mode,
                .token = sequencer->token,
                .slot = static_cast<unsigned>(number_of(grant, "slot").value_or(0)),
                .attached = true},
      .limit = static_cast<unsigned>(number_of(grant, "limit").value_or(UINT_MAX)),
      .family = handle->family,
      .recipe = handle->recipe,
      .place = text_of(grant, "place"),
      .text = grant.dump(),
      .dlock = [process] { return parent_of(process); }};
}

}  // namespace

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
  remove("DLOCK_SENTINEL_PASSWORD");
  if (plan.publish_id) {
    std::string runs;
    for (const std::string& run : runs_around()) runs += run + ':';
    set("DLOCK_RUNS", runs + plan.id);
  }
  if (!plan.publish_environment) return out;

  const std::string_view family = plan.traits.family, recipe = plan.traits.recipe;
  const Handle whole = Handle::of(family, recipe, leases);
  set("DLOCK_HELD", "1");
  remove("DLOCK_SLOT");  // a dlock around this one may have set it
  for (const auto& [name, value] :
       grant_variables(plan.traits, leases.front(), whole, plan.request.ttl))
    set(name, value);

  // A nested dlock also needs the handle, and the pid and start time of this guard, which must be
  // its ancestor. This function writes the JSON text itself, because the JSON library would cost
  // more time than the rest of this file.
  const auto process = process_stat(guard);
  const std::string stands_behind =
      fmt::format(R"("guard":{{"pid":{},"start":{}}})", guard, process ? process->id.start : 0);
  std::string grants;
  for (const Lease& l : leases) {
    const auto outer = std::ranges::find_if(plan.inherited, [&](const InheritedGrant& g) {
      return g.lease.key == l.key && g.lease.owner == l.owner;
    });
    if (outer != plan.inherited.end()) {
      add_part(grants, outer->text, ",");  // the outer dlock keeps the lock, not this one
      continue;
    }
    const bool permit = l.mode == Mode::permit;
    add_part(
        grants,
        fmt::format(R"({{"key":"{}","token":{},"sequencer":"{}","mode":"{}","slot":{},"limit":{},)"
                    R"("handle":"{}","place":"{}",{}}})",
                    escaped(l.key.text()), l.token, Sequencer::of(family, recipe, l).text(),
                    static_cast<char>(l.mode), permit ? std::to_string(l.slot) : "null",
                    permit ? std::to_string(plan.request.limit) : "null",
                    Handle::of(family, recipe, {l}).text(), escaped(plan.place), stands_behind),
        ",");
  }
  for (const InheritedGrant& outer : plan.inherited)
    if (std::ranges::none_of(leases, [&](const Lease& l) { return l.key == outer.lease.key; }))
      add_part(grants, outer.text, ",");
  set("DLOCK_GRANTS", fmt::format("[{}]", grants));
  return out;
}

std::vector<InheritedGrant> inherited_grants() {
  std::vector<InheritedGrant> found;
  // NOLINT(concurrency-mt-unsafe): no thread exists
  const char* grants = std::getenv("DLOCK_GRANTS");
  const Json all = grants ? Json::parse(grants, nullptr, false) : Json();
  if (!all.is_array()) return found;
  for (const Json& grant : all)
    if (auto outer = inherited(grant)) found.push_back(*std::move(outer));
  return found;
}

}  // namespace dlock::run
