// SPDX-License-Identifier: Apache-2.0
#include "bench/text.hpp"
#include <fmt/format.h>

namespace dlock::bench {
namespace {

// Three digits; a fraction only where there is room for one.
std::string three(double v) {
  return v < 9.995   ? fmt::format("{:.2f}", v)
         : v < 99.95 ? fmt::format("{:.1f}", v)
                     : fmt::format("{:.0f}", v);
}

}  // namespace

std::string grouped(double number) {
  if (number < 99.95) return three(number);
  std::string digits = fmt::format("{:.0f}", number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ' ');
  return digits;
}

std::string short_time(Nanoseconds n) {
  const double ns = static_cast<double>(n.count());
  if (ns < 999.5) return fmt::format("{:.0f}ns", ns);
  if (ns < 999.5e3) return three(ns / 1e3) + "us";
  if (ns < 999.5e6) return three(ns / 1e6) + "ms";
  return three(ns / 1e9) + "s";
}

std::string ratio(double r) {
  return r < 9.95 ? fmt::format("{:.1f}", r) : fmt::format("{:.0f}", r);
}

}  // namespace dlock::bench
