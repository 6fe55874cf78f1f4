// SPDX-License-Identifier: Apache-2.0
// The clock of dlock. Every decision uses CLOCK_BOOTTIME, which also counts the time that a machine
// spends suspended: a lease on a server goes on during a suspend. dlock never uses
// std::chrono::steady_clock (CLOCK_MONOTONIC), which stands still during a suspend. Any thread may
// call these functions.
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

// A time until which dlock may rely on a lease, or before which it must act.
using Deadline = Clock::time_point;
inline constexpr Deadline no_deadline = Deadline::max();

// Returns `t + by` without overflow at either end; no_deadline stays no_deadline. A negative `by`
// gives an earlier time.
constexpr Deadline later(Deadline t, Duration by) noexcept {
  if (t == no_deadline) return t;
  constexpr auto longest = std::chrono::duration_cast<Duration>(Clock::duration::max());
  const Clock::duration step = std::clamp(by, -longest, longest);
  if (step < Clock::duration::zero())
    return t < Deadline::min() - step ? Deadline::min() : t + step;
  return t > no_deadline - step ? no_deadline : t + step;
}

// drift() returns the part of a ttl on which dlock does not rely, because clocks run at different
// rates and values are rounded. It is 1 % + 2 ms, as in the Redlock specification. lease_end()
// returns the end of a lease that was requested at `sent`, a time read before the request left. All
// ends of leases come from lease_end().
constexpr Duration drift(Duration ttl) noexcept { return ttl / 100 + std::chrono::milliseconds{2}; }
constexpr Deadline lease_end(Deadline sent, Duration ttl) noexcept {
  return later(sent, ttl - drift(ttl));
}

// A shorter lease needs ?short_ttl=yes, because TCP may take a second to repeat a lost packet.
inline constexpr Duration shortest_ttl = std::chrono::seconds{2};

// Returns the default of --op-timeout, the longest time of one exchange with the store. It is short
// enough to repeat a failed renewal in time. `proven`: the part of the ttl for which dlock can
// prove that it holds the lock, or the whole ttl for a request while no lock is held.
constexpr Duration usual_op_timeout(Duration proven) noexcept {
  return std::min<Duration>(std::chrono::seconds{5}, proven / 6);
}

// Returns the wall clock in microseconds since 1970, for display and as the lower bound of new
// fencing tokens. dlock never compares it with the clock of another machine.
inline std::int64_t wall_micros() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
}

}  // namespace dlock
