// SPDX-License-Identifier: Apache-2.0
// Intervals of one key that overlap although their modes exclude each other.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>
#include "history/attempts.hpp"

namespace dlock::history {

struct Interval {
  std::int64_t from = 0, until = 0;
  const Attempt* of = nullptr;
};

// Calls `found` for each interval that begins while a conflicting one is open, with one such other.
void sweep(std::vector<Interval> intervals,
           const std::function<void(const Interval& open, const Interval& next)>& found);

}  // namespace dlock::history
