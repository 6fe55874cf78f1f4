// SPDX-License-Identifier: Apache-2.0
#include "bench/figures.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::bench {
namespace {

// Returns a number with at least three digits. It has a fraction only if its whole part has fewer
// than three digits.
std::string three(double v) {
  return v < 9.995   ? fmt::format("{:.2f}", v)
         : v < 99.95 ? fmt::format("{:.1f}", v)
                     : fmt::format("{:.0f}", v);
}

}  // namespace

double median(std::vector<double> values) noexcept {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

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
  return std::ranges::any_of(runs, &Figures::no_samples);
}

bool Report::violated() const noexcept { return std::ranges::any_of(runs, &Figures::violated); }

std::string grouped(double number) {
  if (number < 99.95) return three(number);
  std::string digits = fmt::format("{:.0f}", number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ' ');
  return digits;
}

std::string short_time(Nanoseconds n) {
  const double ns = static_cast<double>(n.count());
  if (ns < 999.5) return fmt::format("{:.0f}ns", ns);
  if (ns < 999.5e3) return three(ns / 1e3) + "µs";
  if (ns < 999.5e6) return three(ns / 1e6) + "ms";
  return three(ns / 1e9) + "s";
}

std::string ratio(double r) {
  return r < 9.95 ? fmt::format("{:.1f}", r) : fmt::format("{:.0f}", r);
}

}  // namespace dlock::bench
