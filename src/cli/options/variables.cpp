// SPDX-License-Identifier: Apache-2.0
#include "cli/options/variables.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <vector>
#include "cli/options/option_table.hpp"
#include "cli/options/suggestions.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

constexpr std::string_view prefix = "DLOCK_";

// The variables that dlock sets for a job, and the password: without the prefix.
constexpr std::string_view own[] = {"PASSWORD", "HELD",   "KEY",  "TOKEN", "SEQUENCER",
                                    "HANDLE",   "TTL_MS", "SLOT", "GRANTS"};

bool of_kubernetes(std::string_view name, std::string_view value) {
  return name.ends_with("_SERVICE_HOST") || name.find("_PORT") != name.npos ||
         value.starts_with("tcp://");
}

bool of_an_option(std::string_view name) {
  return std::any_of(option_table().begin(), option_table().end(),
                     [&](const Option& o) { return o.twin && environment_name(o) == name; });
}

bool is_unknown(std::string_view variable) {
  if (!variable.starts_with(prefix)) return false;
  const std::string_view name = variable.substr(0, variable.find('='));
  const std::string_view rest = name.substr(prefix.size());
  if (std::find(std::begin(own), std::end(own), rest) != std::end(own) || rest.starts_with("TEST_"))
    return false;
  return !of_kubernetes(name, variable.substr(std::min(name.size() + 1, variable.size()))) &&
         !of_an_option(name) && !find_old_variable(name);
}

}  // namespace

Result<void> refuse_misspelt_variables(Verb verb) {
  std::vector<std::string> twins;
  for (char** e = ::environ; *e; ++e) {
    const std::string_view name = std::string_view(*e).substr(0, std::string_view(*e).find('='));
    if (!name.starts_with(prefix)) continue;
    if (const OldName* old = of_an_option(name) ? nullptr : find_old_variable(name);
        old && (old->verbs & bit(verb)))
      return fail(Errc::config, no_longer(name, *old, Source::environment));
    if (!is_unknown(*e)) continue;
    if (twins.empty())
      for (const Option& o : option_table())
        if (reads(o, verb)) twins.push_back(environment_name(o));
    // Compared without the prefix, which is half of a short name.
    std::vector<std::string_view> names;
    for (const std::string& t : twins) names.push_back(std::string_view(t).substr(prefix.size()));
    const std::string_view rest = name.substr(prefix.size());
    const bool of_backend =
        (rest == "URL" || rest == "HOST") && find_option("backend", bit(verb)) != nullptr;
    if (const auto meant = of_backend ? "BACKEND" : nearest(rest, names); !meant.empty())
      return fail(Errc::config, fmt::format("{}: there is no such variable; did you mean {}{}?",
                                            printable(name), prefix, meant));
  }
  return {};
}

std::string unknown_variables() {
  std::string text;
  for (char** e = ::environ; *e; ++e)
    if (is_unknown(*e))
      text +=
          fmt::format("{}{}", text.empty() ? "" : ", ",
                      printable(std::string_view(*e).substr(0, std::string_view(*e).find('='))));
  return text;
}

}  // namespace dlock::cli
