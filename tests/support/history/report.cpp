// SPDX-License-Identifier: Apache-2.0
#include "history/report.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::history {
namespace {

std::size_t count(const Verdict& v, std::string_view invariant) {
  return static_cast<std::size_t>(
      std::count_if(v.violations.begin(), v.violations.end(),
                    [&](const Violation& x) { return x.invariant == invariant; }));
}

std::string in_ms(const std::optional<std::int64_t>& ns) {
  return ns ? fmt::format("{:.1f} ms", static_cast<double>(*ns) / 1e6) : "none ended by dlock";
}

}  // namespace

std::string markdown(const Verdict& v) {
  const Figures& f = v.figures;
  std::string out = fmt::format(
      "{} grants, {} jobs, {} faults; kill slack: least {}, p1 {}; overlap where only tokens "
      "protect: {}\n\n",
      f.grants, f.jobs, f.faults, in_ms(f.least_slack), in_ms(f.p1_slack),
      in_ms(f.excused_overlap));
  out += "| | must be true | violations |\n|---|---|---|\n";
  for (const auto& [id, rule] : invariants)
    out += fmt::format("| {} | {} | {} |\n", id, rule, count(v, id));
  for (const auto& invariant : invariants) {
    const auto& id = invariant.first;  // a lambda of clang 14 holds no structured binding
    const auto first = std::find_if(v.violations.begin(), v.violations.end(),
                                    [&](const Violation& x) { return x.invariant == id; });
    if (first == v.violations.end()) continue;
    out += fmt::format("\n{}: {}\n", id, first->sentence);
    for (const Event* e : first->excerpt) out += fmt::format("  {}\n", e->line);
  }
  return out;
}

}  // namespace dlock::history
