// SPDX-License-Identifier: Apache-2.0
// Time. Every decision uses CLOCK_BOOTTIME: it counts the time a machine spends suspended, while a
// lease on a server runs on. std::chrono::steady_clock (CLOCK_MONOTONIC) stands still in suspend
// and is never used.
#pragma once
#include <algorithm>
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

// `t + by` without overflow at either end: no_deadline stays no_deadline. A negative span leads
// into the past: a time that is over already.
constexpr Deadline later(Deadline t, Duration by) noexcept {
  if (t == no_deadline) return t;
  constexpr auto longest = std::chrono::duration_cast<Duration>(Clock::duration::max());
  const Clock::duration step = std::clamp(by, -longest, longest);
  if (step < Clock::duration::zero())
    return t < Deadline::min() - step ? Deadline::min() : t + step;
  return t > no_deadline - step ? no_deadline : t + step;
}

// The part of a lease of `ttl` lost to clocks that run at different rates and to rounding: 1 % + 2
// ms, the figures of the Redlock specification. A lease requested at `sent` (before the request
// left) is ours until lease_end(sent, ttl).
constexpr Duration drift(Duration ttl) noexcept { return ttl / 100 + std::chrono::milliseconds{2}; }
constexpr Deadline lease_end(Deadline sent, Duration ttl) noexcept {
  return later(sent, ttl - drift(ttl));
}

// A shorter lease needs ?short_ttl=yes: one lost packet is sent again after a second.
inline constexpr Duration shortest_ttl = std::chrono::seconds{2};

// How long one exchange with the store may take, unless --op-timeout says so, under a lease of
// which `proven` is known to be ours (or, where nothing is held, beside a ttl): so that a failed
// renewal can be repeated in time.
constexpr Duration usual_op_timeout(Duration proven) noexcept {
  return std::min<Duration>(std::chrono::seconds{5}, proven / 6);
}

// Wall clock, for display and for the floor of a fencing token; never compared with another
// machine's.
inline std::int64_t wall_micros() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
}

}  // namespace dlock
