// SPDX-License-Identifier: Apache-2.0
// inspect --doctor: can this store keep locks safely?
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include "cli/inspect/output.hpp"
#include "core/text.hpp"
#include "util/table.hpp"

namespace dlock::cli {
namespace {

using Level = Finding::Level;

// Indexed by Level. The texts are padded, so that the columns are the same with and without a
// "warning".
constexpr struct {
  std::string_view text, json;
} levels[] = {
    {"ok     ", "good"}, {"warning", "warning"}, {"BAD    ", "bad"}, {"?      ", "unknown"}};

auto count(const std::vector<Finding>& found, Level level) {
  return std::ranges::count(found, level, &Finding::level);
}

}  // namespace

bool unfit(const std::vector<Finding>& found) noexcept { return count(found, Level::bad) > 0; }

std::string text_of_findings(const std::vector<Finding>& found, const OpenStore& opened) {
  std::vector<Row> rows;
  for (const Finding& f : found) {
    const std::string_view level = levels[static_cast<std::size_t>(f.level)].text;
    rows.push_back({std::string(level), printable(f.what), printable(f.seen)});
    if (!f.advice.empty()) rows.push_back({"", "", "-> " + printable(f.advice)});
  }
  rows.push_back({"note   ", std::string(opened.store.traits->weakness)});
  const auto bad = count(found, Level::bad), warnings = count(found, Level::warning);
  return fmt::format("{}, recipe {}\n{}{}: {} bad, {} warning{}, {} unknown\n",
                     printable(opened.backend->where()), opened.store.traits->recipe, aligned(rows),
                     bad ? "not fit to keep locks" : "fit to keep locks", bad, warnings,
                     warnings == 1 ? "" : "s", count(found, Level::unknown));
}

std::string json_of_findings(const std::vector<Finding>& found, const OpenStore& opened) {
  using Json = nlohmann::ordered_json;
  Json j{{"backend", printable(opened.backend->where())},
         {"recipe", opened.store.traits->recipe},
         {"weakness", opened.store.traits->weakness},
         {"fit", !unfit(found)},
         {"findings", Json::array()}};
  for (const Finding& f : found)
    j["findings"].push_back(
        {{"level", levels[static_cast<std::size_t>(f.level)].json},
         {"what", printable(f.what)},
         {"seen", printable(f.seen)},
         {"advice", f.advice.empty() ? Json(nullptr) : Json(printable(f.advice))}});
  return j.dump() + '\n';
}

}  // namespace dlock::cli
