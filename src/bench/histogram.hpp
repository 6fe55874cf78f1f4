// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace dlock::bench {

using Nanoseconds = std::chrono::nanoseconds;

// A histogram of durations from 1 ns to 2^42 ns (73 min; longer durations count as 2^42), after
// Tene's HdrHistogram. The width of a bucket grows with the value: there are 64 buckets per power
// of two. So percentile(), which returns the middle of a bucket, is at most 1/128 = 0.8 % off. Min
// and max are exact. A histogram takes 20 KiB for any number of samples. Several threads may call
// record() at once. Call the other functions when all recording is over.
class Histogram {
 public:
  Histogram();
  void record(Nanoseconds) noexcept;
  void add(const Histogram&);

  std::uint64_t count() const noexcept { return count_; }
  Nanoseconds min() const noexcept {
    return Nanoseconds{count_ ? static_cast<std::int64_t>(min_) : 0};
  }
  Nanoseconds max() const noexcept { return Nanoseconds{static_cast<std::int64_t>(max_)}; }
  // Returns the smallest value v such that at least `per_100000` of 100000 samples are <= v; 50000
  // gives the median. 0 without samples.
  Nanoseconds percentile(std::uint32_t per_100000) const noexcept;

 private:
  static std::size_t index(std::uint64_t) noexcept;
  static std::uint64_t middle(std::size_t) noexcept;

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
};

// Events over time, in at most 128 slots of equal width. When the slots are used up, neighbours are
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
