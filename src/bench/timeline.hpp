// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include "bench/histogram.hpp"

namespace dlock::bench {

// Events over time, in at most 128 slots of equal width: at the end of the range neighbours are
// merged and the width doubles, so a run of any length fits. Several threads may call add().
class Timeline {
 public:
  struct Slot {
    std::uint64_t count = 0;
    Nanoseconds sum{}, max{};
  };
  static constexpr std::size_t slots = 128;

  void add(Nanoseconds since_start, Nanoseconds value) {
    const std::lock_guard lock(mutex_);
    if (since_start < Nanoseconds{}) return;
    while (since_start >= width_ * static_cast<std::int64_t>(slots)) halve();
    Slot& s = slots_[static_cast<std::size_t>(since_start / width_)];
    ++s.count;
    s.sum += value;
    s.max = std::max(s.max, value);
  }
  Nanoseconds width() const noexcept { return width_; }
  const std::array<Slot, slots>& all() const noexcept { return slots_; }

 private:
  void halve() {
    for (std::size_t i = 0; i < slots; ++i) {
      Slot merged;
      for (std::size_t j = 2 * i; j < std::min(2 * i + 2, slots); ++j) {
        merged.count += slots_[j].count;
        merged.sum += slots_[j].sum;
        merged.max = std::max(merged.max, slots_[j].max);
      }
      slots_[i] = merged;
    }
    width_ *= 2;
  }

  std::mutex mutex_;
  Nanoseconds width_{std::chrono::milliseconds{10}};
  std::array<Slot, slots> slots_{};
};

}  // namespace dlock::bench
