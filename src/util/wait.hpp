// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <poll.h>
#include <algorithm>
#include <cerrno>
#include <span>
#include "core/clock.hpp"

namespace dlock {

// The longest sleep of one poll(2). The timeout of poll(2) stands still while the machine is
// suspended, but CLOCK_BOOTTIME goes on. If a wait in such steps should have ended during a
// suspend, it ends at most one step after the machine wakes up. One long poll(2) would be late by
// the length of the suspend.
inline constexpr std::chrono::seconds longest_sleep{1};

// Waits for an event on one of the descriptors, or until `until`, by CLOCK_BOOTTIME. Returns how
// many descriptors are ready (see `revents`); 0: the time is over; below 0: -errno of poll(2). It
// ignores negative descriptors, and goes on waiting after a signal handler has run. Any thread may
// call it.
inline int wait_until(std::span<pollfd> fds, Deadline until) noexcept {
  using std::chrono::nanoseconds;
  for (;;) {
    const nanoseconds left =
        std::clamp<nanoseconds>(until - Clock::now(), nanoseconds::zero(), longest_sleep);
    const timespec step{left / std::chrono::seconds{1},
                        static_cast<long>((left % std::chrono::seconds{1}).count())};
    const int ready =
        ::ppoll(fds.data(), fds.size(), until == no_deadline ? nullptr : &step, nullptr);
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) return -errno;
    if (Clock::now() >= until) return 0;
  }
}

}  // namespace dlock
