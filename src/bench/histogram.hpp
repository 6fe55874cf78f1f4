// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlock::bench {

using Nanoseconds = std::chrono::nanoseconds;

// Durations from 1 ns to 2^42 ns (73 min; longer ones count as that) in buckets whose width grows
// with the value, after Tene's HdrHistogram: 64 per power of two, so the result of percentile(),
// the middle of a bucket, is at most 1/128 = 0.8 % off. Min and max are exact. 20 KiB for any
// number of samples. Several threads may call record() at once; the other functions need all
// recording to be over.
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
  // The smallest value v for which at least `per_100000` of 100000 samples are <= v: 50000 is the
  // median. 0 without samples.
  Nanoseconds percentile(std::uint32_t per_100000) const noexcept;

 private:
  static std::size_t index(std::uint64_t) noexcept;
  static std::uint64_t middle(std::size_t) noexcept;

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
};

}  // namespace dlock::bench
