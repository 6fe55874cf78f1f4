// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/timerfd.h>
#include <unistd.h>
#include <cstdint>
#include "core/clock.hpp"
#include "job/process.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// One absolute alarm on CLOCK_BOOTTIME, as a descriptor for poll(2). (The timeout of poll(2) itself
// stands still during a suspend.) Use it on one thread. Check failed() before you rely on it.
class Timer {
 public:
  Timer() : fd_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
    if (!fd_) failed_ = {"timerfd_create", errno};
    else if (!set(no_deadline)) failed_ = {"timerfd_settime", errno};
  }
  int fd() const noexcept { return fd_.get(); }
  // Returns the call that failed when the constructor tried the timer. If a call failed, no alarm
  // would come.
  const FailedCall& failed() const noexcept { return failed_; }
  void arm(Deadline at) {  // no_deadline switches the alarm off
    if (at != armed_ && set(at)) armed_ = at;
  }
  void drain() {
    std::uint64_t expirations = 0;
    if (::read(fd_.get(), &expirations, sizeof expirations) > 0) armed_ = no_deadline;
  }

 private:
  bool set(Deadline at) {
    itimerspec spec{};
    if (at != no_deadline) {
      const auto ns = std::max<std::int64_t>(1, at.time_since_epoch().count());
      spec.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    return ::timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0;
  }

  Fd fd_;
  FailedCall failed_;
  Deadline armed_ = no_deadline;
};

}  // namespace dlock::run
