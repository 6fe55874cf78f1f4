// SPDX-License-Identifier: Apache-2.0
#include "bench/histogram.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include "bench/figures.hpp"

using namespace dlock::bench;

namespace {

// The definition: the smallest sample v for which at least this fraction of all samples is <= v.
std::int64_t exact(const std::vector<std::int64_t>& sorted, std::uint32_t per_100000) {
  const std::uint64_t wanted = (sorted.size() * per_100000 + 99'999) / 100'000;
  return sorted[std::max<std::uint64_t>(wanted, 1) - 1];
}

void compare(std::vector<std::int64_t> samples) {
  Histogram h;
  for (const std::int64_t s : samples) h.record(Nanoseconds{s});
  std::sort(samples.begin(), samples.end());
  CHECK(h.count() == samples.size());
  CHECK(h.min().count() == samples.front());
  CHECK(h.max().count() == samples.back());
  for (std::uint32_t q = 0; q <= 100'000; q += 50) {
    const double want = static_cast<double>(exact(samples, q)),
                 got = static_cast<double>(h.percentile(q).count());
    if (got < want * 0.99 || got > want * 1.01) {
      CAPTURE(q, want, got);
      FAIL("more than 1 % off");
    }
  }
}

}  // namespace

TEST_CASE("percentiles of a million samples are within 1 % of the exact ones") {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> samples(1'000'000);
  SECTION("long tail, from a microsecond to minutes") {
    std::lognormal_distribution<double> d(11, 2.5);
    for (auto& s : samples)
      s = std::min(static_cast<std::int64_t>(d(random)) + 1, std::int64_t{1} << 41);
  }
  SECTION("uniform") {
    std::uniform_int_distribution<std::int64_t> d(1, 5'000'000);
    for (auto& s : samples) s = d(random);
  }
  SECTION("two clusters far apart") {
    for (auto& s : samples) s = random() % 100 == 0 ? 4'000'000'000 : 70'000;
  }
  SECTION("samples on each bucket's edge") {
    for (auto& s : samples)
      s = (std::int64_t{1} << (random() % 40)) - static_cast<std::int64_t>(random() % 2);
    for (auto& s : samples) s = std::max<std::int64_t>(s, 1);
  }
  compare(std::move(samples));
}

TEST_CASE("no sample, one sample, and samples out of range") {
  Histogram h;
  CHECK(h.percentile(50'000) == Nanoseconds{0});
  CHECK(h.max() == Nanoseconds{0});
  h.record(Nanoseconds{123'457});
  for (const std::uint32_t q : {0U, 1U, 50'000U, 99'999U, 100'000U})
    CHECK(h.percentile(q) == Nanoseconds{123'457});
  h.record(Nanoseconds{-5});
  CHECK(h.min() == Nanoseconds{0});
  h.record(Nanoseconds::max());
  CHECK(h.max() == Nanoseconds{(std::int64_t{1} << 42) - 1});
}

TEST_CASE("the sum of two histograms is the histogram of all samples") {
  std::mt19937_64 random(2);
  Histogram one, other, both;
  for (int i = 0; i < 10'000; ++i) {
    const Nanoseconds n{static_cast<std::int64_t>(random() % 10'000'000)};
    (i % 3 ? one : other).record(n);
    both.record(n);
  }
  one.add(other);
  CHECK(one.count() == both.count());
  CHECK(one.min() == both.min());
  CHECK(one.max() == both.max());
  for (const Quantile& q : quantiles)
    CHECK(one.percentile(q.per_100000) == both.percentile(q.per_100000));
}

TEST_CASE("samples of several threads are all counted") {
  Histogram h;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&h, t] {
      for (int i = 1; i <= 50'000; ++i) h.record(Nanoseconds{i * 4 + t});
    });
  for (auto& t : threads) t.join();
  CHECK(h.count() == 200'000);
  CHECK(h.min() == Nanoseconds{4});
  CHECK(h.max() == Nanoseconds{200'003});
}

TEST_CASE("median") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 2, 9}) == 3);
}
