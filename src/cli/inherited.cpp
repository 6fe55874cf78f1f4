// SPDX-License-Identifier: Apache-2.0
#include "cli/inherited.hpp"
#include <fmt/format.h>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include "core/key.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"
#include "run/process.hpp"

namespace dlock::cli {
namespace {

// Written by a dlock, or by any other program: checked.
std::optional<std::uint64_t> number(const nlohmann::json& j, const char* name) {
  const auto at = j.find(name);
  if (at == j.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<std::uint64_t>();
}
std::string text(const nlohmann::json& j, const char* name) {
  const auto at = j.find(name);
  return at != j.end() && at->is_string() ? at->get<std::string>() : std::string();
}

void add(Inherited& to, const nlohmann::json& grant, const Store& store) {
  const auto key = Key::parse(text(grant, "key"));
  const auto handle = Handle::parse(text(grant, "handle"));
  const auto sequencer = Sequencer::parse(text(grant, "sequencer"));
  const auto guard = grant.find("guard");
  if (!key || !handle || !sequencer || guard == grant.end() || !guard->is_object()) return;
  const auto pid = number(*guard, "pid"), start = number(*guard, "start");
  if (!pid || !start || *pid > 1U << 22U || !run::is_ancestor({static_cast<pid_t>(*pid), *start}))
    return;
  to.texts.emplace_back(*key, grant.dump());
  const std::string place = text(grant, "place");
  if (to.elsewhere.empty() && !place.empty() && place != place_of(store))
    to.elsewhere = fmt::format(
        "the dlock around this one holds '{}' on {}, and this one asks {}: two "
        "backends know nothing of each other (-q hides this)",
        printable(key->text()), printable(place), place_of(store));
  if (handle->family != store.traits->family || handle->recipe != store.traits->recipe) return;
  to.grants.push_back({.key = *key,
                       .owner = handle->lease(*key).owner,
                       .mode = sequencer->mode,
                       .limit = static_cast<unsigned>(number(grant, "limit").value_or(UINT_MAX)),
                       .token = sequencer->token,
                       .slot = static_cast<unsigned>(number(grant, "slot").value_or(0))});
}

}  // namespace

Inherited find_inherited(const Store& store) {
  Inherited found;
  // NOLINT(concurrency-mt-unsafe): no thread exists
  const char* grants = std::getenv("DLOCK_GRANTS");
  if (!grants) return found;
  const nlohmann::json all = nlohmann::json::parse(grants, nullptr, false);
  if (!all.is_array()) return found;
  for (const nlohmann::json& grant : all)
    if (grant.is_object()) add(found, grant, store);
  return found;
}

}  // namespace dlock::cli
