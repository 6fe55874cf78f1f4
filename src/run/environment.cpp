// SPDX-License-Identifier: Apache-2.0
#include "run/environment.hpp"
#include <fmt/format.h>
#include "core/sequencer.hpp"

namespace dlock::run {

namespace {

// A key inside a JSON string: it is valid UTF-8 without control characters, so two characters need care. (A JSON library on the way
// of every start costs more than the rest of this file.)
std::string json_text(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string handle_of(const Traits& traits, const Lease& lease) {
  return Handle{std::string(traits.family), std::string(traits.recipe), lease.owner, lease.ticket}.text();
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
  set("DLOCK_GRANTS", fmt::format(R"([{{"key":"{}","token":{},"sequencer":"{}","mode":"{}","slot":{}}}])",
                                  json_text(lease.key.text()), lease.token, sequencer, static_cast<char>(lease.mode),
                                  lease.mode == Mode::permit ? std::to_string(lease.slot) : "null"));
  return out;
}

}  // namespace dlock::run
