// SPDX-License-Identifier: Apache-2.0
// Shared by the programs that do harm to real servers at large.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>
#include "core/clock.hpp"

namespace dlock::prove {

inline bool failed = false;

inline void must(bool so, const std::string& what) {
  if (so) return;
  failed = true;
  fmt::print("NOT MET: {}\n", what);
}

inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

template <class T>
T quantile(std::vector<T> v, double q) {
  if (v.empty()) return {};
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

}  // namespace dlock::prove
