// SPDX-License-Identifier: Apache-2.0
#include "run/environment.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/sequencer.hpp"

namespace dlock::run {

std::string handle_of(const Traits& traits, const Lease& lease) {
  return Handle{std::string(traits.family), std::string(traits.recipe), lease.owner, {}}.text();
}

std::string job_environment(const Plan& plan, const Lease& lease) {
  std::string out;
  const auto set = [&](std::string_view name, std::string_view value) {
    out.append(name).append("=").append(value).push_back('\0');
  };
  const auto remove = [&](std::string_view name) { out.append(name).push_back('\0'); };
  remove("DLOCK_PASSWORD");
  if (!plan.publish_environment) return out;

  const std::string sequencer =
      Sequencer{std::string(plan.traits.family), std::string(plan.traits.recipe), lease.key, lease.mode, lease.token}.text();
  set("DLOCK_HELD", "1");
  set("DLOCK_KEY", lease.key.text());
  set("DLOCK_TOKEN", std::to_string(lease.token));
  set("DLOCK_SEQUENCER", sequencer);
  set("DLOCK_HANDLE", handle_of(plan.traits, lease));
  set("DLOCK_TTL_MS", std::to_string(plan.timing.ttl / std::chrono::milliseconds{1}));
  if (lease.mode == Mode::permit) set("DLOCK_SLOT", std::to_string(lease.slot));
  else remove("DLOCK_SLOT");
  nlohmann::ordered_json grant{{"key", lease.key.text()},
                               {"token", lease.token},
                               {"sequencer", sequencer},
                               {"mode", std::string(1, static_cast<char>(lease.mode))}};
  grant["slot"] = lease.mode == Mode::permit ? nlohmann::ordered_json(lease.slot) : nlohmann::ordered_json(nullptr);
  set("DLOCK_GRANTS", nlohmann::ordered_json::array({grant}).dump());
  return out;
}

}  // namespace dlock::run
