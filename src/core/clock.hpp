// SPDX-License-Identifier: Apache-2.0
// Time. Every decision uses CLOCK_BOOTTIME: it counts the time a machine spends suspended, while a lease on a server
// runs on. std::chrono::steady_clock (CLOCK_MONOTONIC) stands still in suspend and is never used.
#pragma once
#include <chrono>
#include <cstdint>
#include <ctime>

namespace dlock {

using Duration = std::chrono::microseconds;

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return time_point{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
  }
};

// An instant of this boot after which something must not be relied on any more.
using Deadline = Clock::time_point;
inline constexpr Deadline no_deadline = Deadline::max();

// `t + by` without overflow: no_deadline stays no_deadline.
constexpr Deadline later(Deadline t, Duration by) noexcept { return t > no_deadline - by ? no_deadline : t + by; }

// What a lease of `ttl` loses to clocks that do not run at the same rate and to rounding: 1 % + 2 ms, the figures of the
// Redlock specification. A lease asked for at `sent` (before the request left) is ours until lease_end(sent, ttl).
constexpr Duration drift(Duration ttl) noexcept { return ttl / 100 + std::chrono::milliseconds{2}; }
constexpr Deadline lease_end(Deadline sent, Duration ttl) noexcept { return later(sent, ttl - drift(ttl)); }

// Wall clock, for people and for the floor of a fencing token; never compared with another machine's.
inline std::int64_t wall_micros() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
}

}  // namespace dlock
