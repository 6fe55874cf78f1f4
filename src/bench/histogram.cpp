// SPDX-License-Identifier: Apache-2.0
#include "bench/histogram.hpp"
#include <atomic>
#include <bit>

namespace dlock::bench {
namespace {

constexpr unsigned sub_bits = 6;  // 64 buckets per power of two
constexpr unsigned value_bits = 42;
constexpr std::uint64_t largest = (std::uint64_t{1} << value_bits) - 1;
constexpr std::size_t buckets = (value_bits - sub_bits + 1) << sub_bits;

template <class Better>
void improve(std::uint64_t& extreme, std::uint64_t value, Better better) noexcept {
  const std::atomic_ref shared(extreme);
  std::uint64_t known = shared.load(std::memory_order_relaxed);
  while (better(value, known) &&
         !shared.compare_exchange_weak(known, value, std::memory_order_relaxed)) {}
}

}  // namespace

Histogram::Histogram() : counts_(buckets) {}

// Returns the bucket of `v`. Below 64 the bucket is v. From 64 on, the position of the leading bit
// and the six bits after it give the bucket.
std::size_t Histogram::index(std::uint64_t v) noexcept {
  const unsigned width = static_cast<unsigned>(std::bit_width(v));
  if (width <= sub_bits) return v;
  const unsigned shift = width - sub_bits - 1;
  return (std::size_t{shift + 1} << sub_bits) + ((v >> shift) - (std::uint64_t{1} << sub_bits));
}

std::uint64_t Histogram::middle(std::size_t i) noexcept {
  if (i < (std::size_t{1} << sub_bits)) return i;
  const std::size_t shift = (i >> sub_bits) - 1;
  const std::uint64_t low =
      ((std::uint64_t{1} << sub_bits) + (i & ((std::size_t{1} << sub_bits) - 1))) << shift;
  return low + (((std::uint64_t{1} << shift) - 1) / 2);
}

void Histogram::record(Nanoseconds d) noexcept {
  const std::uint64_t v =
      std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(d.count(), 0)), largest);
  std::atomic_ref(counts_[index(v)]).fetch_add(1, std::memory_order_relaxed);
  std::atomic_ref(count_).fetch_add(1, std::memory_order_relaxed);
  improve(min_, v, std::less{});
  improve(max_, v, std::greater{});
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

Nanoseconds Histogram::percentile(std::uint32_t per_100000) const noexcept {
  if (count_ == 0) return {};
  const std::uint64_t whole = count_ / 100'000, rest = count_ % 100'000;
  const std::uint64_t wanted =
      std::max<std::uint64_t>(1, whole * per_100000 + (rest * per_100000 + 99'999) / 100'000);
  if (wanted >= count_) return max();
  std::uint64_t counted = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counted += counts_[i];
    if (counted >= wanted)
      return Nanoseconds{static_cast<std::int64_t>(std::clamp(middle(i), min_, max_))};
  }
  return max();
}

}  // namespace dlock::bench
