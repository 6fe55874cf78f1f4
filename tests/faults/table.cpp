// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace dlock::faults {
namespace {

std::string in_ms(const std::optional<std::int64_t>& ns) {
  return ns ? fmt::format("{:.0f}", ms(*ns)) : "–";
}

std::string violated(const Row& row) {
  std::string text;
  for (const auto& [id, n] : row.violations)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", id, n);
  return text.empty() ? "0" : text;
}

std::size_t count(const Row& row) {
  std::size_t n = 0;
  for (const auto& [id, times] : row.violations) n += times;
  return n;
}

}  // namespace

std::string head() {
  return "| target | fault | promised | grants | faults | violations | overlap ms | kill slack ms, "
         "least, p1 | lost updates | stale writes refused, accepted | next grant ms p50, p99 |\n"
         "|---|---|---|---:|---:|---|---:|---|---:|---|---|\n";
}

std::string line(const Row& r) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {:.1f} | {}, {} | {} | {}, {} | {}, {} |\n",
                     r.target, r.what,
                     !r.broken.empty()       ? "**BROKEN**"
                     : r.not_covered.empty() ? "yes"
                                             : "not covered",
                     r.grants, r.faults, violated(r), ms(r.longest_overlap), in_ms(r.least_slack),
                     in_ms(r.p1_slack), r.lost_updates, r.stale_refused, r.stale_accepted,
                     in_ms(r.next_p50), in_ms(r.next_p99));
}

std::string sum(const std::vector<Row>& rows) {
  std::size_t grants = 0, faulty = 0, faults = 0, covered = 0, violations = 0, excused = 0,
              refused = 0, accepted = 0, missed = 0;
  std::uint64_t lost = 0, lost_covered = 0;
  std::int64_t overlap = 0, overlap_covered = 0;
  std::optional<std::int64_t> slack;
  for (const Row& r : rows) {
    grants += r.grants;
    faults += r.faults;
    missed += r.missed;
    if (r.fault != "none") faulty += r.grants;
    refused += r.stale_refused;
    accepted += r.stale_accepted;
    lost += r.lost_updates;
    overlap = std::max(overlap, r.longest_overlap);
    if (r.not_covered.empty()) {
      ++covered;
      violations += count(r);
      lost_covered += r.lost_updates;
      overlap_covered = std::max(overlap_covered, r.longest_overlap);
      if (r.least_slack) slack = std::min(slack.value_or(*r.least_slack), *r.least_slack);
    } else {
      excused += count(r);
    }
  }
  std::string text = fmt::format(
      "| **all** | {} cells | {} | {} | {} | {} | {:.1f} | {}, – | {} | {}, {} | – |\n\n",
      rows.size(), covered, grants, faults, violations + excused, ms(overlap), in_ms(slack), lost,
      refused, accepted);
  text += fmt::format(
      "{} grants, {} of them in cells with faults; {} faults, {} more had no job to meet. Where "
      "exclusion is promised ({} cells): {} violations, {} lost updates, longest overlap {:.1f} "
      "ms, least kill slack {} ms. Where it is not ({} cells): {} violations of exclusion, longest "
      "overlap {:.1f} ms, {} stale writes refused, {} accepted.\n",
      grants, faulty, faults, missed, covered, violations, lost_covered, ms(overlap_covered),
      in_ms(slack), rows.size() - covered, excused, ms(overlap), refused, accepted);
  for (const Row& r : rows)
    for (const std::string& b : r.broken) text += fmt::format("\n{}, {}:\n{}", r.target, r.what, b);
  return text;
}

std::string json(const std::vector<Row>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& r : rows) {
    nlohmann::ordered_json j{{"target", r.target},
                             {"fault", r.fault},
                             {"promised", r.not_covered.empty()},
                             {"why_not", r.not_covered},
                             {"seconds", r.seconds},
                             {"grants", r.grants},
                             {"jobs", r.jobs},
                             {"faults", r.faults},
                             {"faults_missed", r.missed},
                             {"torn_traces", r.torn},
                             {"violations", r.violations},
                             {"overlaps", r.overlaps},
                             {"longest_overlap_ns", r.longest_overlap},
                             {"lost_updates", r.lost_updates},
                             {"stale_refused", r.stale_refused},
                             {"stale_accepted", r.stale_accepted},
                             {"statuses", r.statuses},
                             {"broken", r.broken}};
    if (r.least_slack) j["least_slack_ns"] = *r.least_slack, j["p1_slack_ns"] = *r.p1_slack;
    if (r.next_p50) j["next_grant_p50_ns"] = *r.next_p50, j["next_grant_p99_ns"] = *r.next_p99;
    all.push_back(std::move(j));
  }
  return all.dump(1);
}

}  // namespace dlock::faults
