// SPDX-License-Identifier: Apache-2.0
#include "bench/figures.hpp"
#include <algorithm>
#include "bench/ledger.hpp"

namespace dlock::bench {

double median(std::vector<double> values) noexcept {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Figures::grants_per_s() const noexcept {
  std::vector<double> all;
  for (const Round& r : rounds) all.push_back(r.grants_per_s);
  return median(std::move(all));
}

double Figures::fairness() const noexcept { return jain(per_client); }

std::optional<double> Figures::wakeups_per_grant() const noexcept {
  if (!wakes || grants == 0) return std::nullopt;
  return static_cast<double>(wakeups) / static_cast<double>(grants);
}

std::optional<double> Figures::leases_kept() const noexcept {
  if (scenario != Scenario::renew || renew_every <= Duration::zero()) return std::nullopt;
  return grants_per_s() * std::chrono::duration<double>(renew_every).count();
}

bool Figures::no_samples() const noexcept {
  return skipped.empty() && !rounds.empty() && grants == 0 && of(Latency::takeover).count() == 0;
}

bool Report::without_samples() const noexcept {
  return std::any_of(runs.begin(), runs.end(), [](const Figures& f) { return f.no_samples(); });
}

bool Report::violated() const noexcept {
  return std::any_of(runs.begin(), runs.end(), [](const Figures& f) { return f.violated(); });
}

}  // namespace dlock::bench
