// SPDX-License-Identifier: Apache-2.0
// inspect --doctor: is this store fit to keep locks?
#include "cli/inspect/doctor.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include "core/text.hpp"

namespace dlock::cli {
namespace {

std::string_view word(Finding::Level l) {
  switch (l) {
    case Finding::Level::good: return "ok";
    case Finding::Level::warning: return "warning";
    case Finding::Level::bad: return "BAD";
    case Finding::Level::unknown: return "?";
  }
  return "?";
}

bool is(const Finding& f, Finding::Level l) { return f.level == l; }

}  // namespace

bool unfit(const std::vector<Finding>& found) noexcept {
  return std::any_of(found.begin(), found.end(),
                     [](const Finding& f) { return is(f, Finding::Level::bad); });
}

std::string text_of_findings(const std::vector<Finding>& found, const OpenStore& opened) {
  std::size_t widest = 0;
  for (const Finding& f : found) widest = std::max(widest, printable(f.what).size());
  std::string text = fmt::format("{}, recipe {}\n", printable(opened.backend->where()),
                                 opened.store.traits->recipe);
  for (const Finding& f : found) {
    text += fmt::format("{:<9}{:<{}}  {}\n", word(f.level), printable(f.what), widest,
                        printable(f.seen));
    if (!f.advice.empty())
      text += fmt::format("{:{}}-> {}\n", "", 9 + widest + 2, printable(f.advice));
  }
  text += fmt::format("{:<9}{}\n", "note", opened.store.traits->weakness);
  const auto count = [&](Finding::Level l) {
    return std::count_if(found.begin(), found.end(), [&](const Finding& f) { return is(f, l); });
  };
  const auto bad = count(Finding::Level::bad), warnings = count(Finding::Level::warning),
             unknown = count(Finding::Level::unknown);
  return text + fmt::format("{}: {} bad, {} warning{}, {} unknown\n",
                            bad ? "not fit to keep locks" : "fit to keep locks", bad, warnings,
                            warnings == 1 ? "" : "s", unknown);
}

std::string json_of_findings(const std::vector<Finding>& found, const OpenStore& opened) {
  nlohmann::ordered_json j{{"backend", printable(opened.backend->where())},
                           {"recipe", opened.store.traits->recipe},
                           {"weakness", opened.store.traits->weakness},
                           {"fit", !unfit(found)}};
  j["findings"] = nlohmann::ordered_json::array();
  constexpr std::string_view levels[] = {"good", "warning", "bad", "unknown"};
  for (const Finding& f : found)
    j["findings"].push_back(
        {{"level", levels[static_cast<std::size_t>(f.level)]},
         {"what", printable(f.what)},
         {"seen", printable(f.seen)},
         {"advice", f.advice.empty() ? nlohmann::ordered_json(nullptr)
                                     : nlohmann::ordered_json(printable(f.advice))}});
  return j.dump() + '\n';
}

}  // namespace dlock::cli
