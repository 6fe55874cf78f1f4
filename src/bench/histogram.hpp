// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlock::bench {

using Nanoseconds = std::chrono::nanoseconds;

// Durations from 1 ns to 2^42 ns (73 min; longer ones count as that) in buckets whose width grows with the value, after Tene's HdrHistogram: 64 to a
// power of two, so what percentile() answers, the middle of a bucket, is at most 1/128 = 0.8 % off. Min and max are exact. 20 KiB,
// however many samples. record() may be called by several threads at once, the rest only when nobody records.
class Histogram {
 public:
  Histogram();
  void record(Nanoseconds) noexcept;
  void add(const Histogram&);

  std::uint64_t count() const noexcept { return count_; }
  Nanoseconds min() const noexcept { return Nanoseconds{count_ ? static_cast<std::int64_t>(min_) : 0}; }
  Nanoseconds max() const noexcept { return Nanoseconds{static_cast<std::int64_t>(max_)}; }
  // The smallest value that at least `per_100000` of 100000 samples do not exceed: 50000 is the median. 0 without samples.
  Nanoseconds percentile(std::uint32_t per_100000) const noexcept;

 private:
  static std::size_t index(std::uint64_t) noexcept;
  static std::uint64_t middle(std::size_t) noexcept;

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
};

}  // namespace dlock::bench
