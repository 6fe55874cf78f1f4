// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include "core/clock.hpp"
#include "run/message.hpp"

namespace dlock::run {

// When dlock kills a guard that did not end the job in time, because it is stopped or stuck: half a
// margin after the time by which the guard was to send KILL. Its death ends the job. Pure, as
// Policy is.
class SecondLine {
 public:
  explicit SecondLine(Duration margin) : half_(margin / 2) {}

  // When due() is to be asked; no_deadline: never.
  Deadline wake_at(const GuardDeadlines& when) const noexcept {
    const Deadline at = acted_ ? no_deadline : late_at(when);
    return at == no_deadline || look_again_ == no_deadline ? at : std::max(at, look_again_);
  }

  // The guard is to be killed now; true once.
  bool due(const GuardDeadlines& when, Deadline now) noexcept {
    const Deadline at = late_at(when);
    if (acted_ || now < at) return false;
    // Is dlock late itself? Then the cause (a suspend, a frozen cgroup) may have stopped the guard
    // as well, and it is about to act.
    if (now > later(at, own_lateness) && look_again_ == no_deadline)
      look_again_ = later(now, own_lateness);
    if (look_again_ != no_deadline && now < look_again_) return false;
    acted_ = true;
    return true;
  }

 private:
  // More than a busy machine causes.
  static constexpr Duration own_lateness = std::chrono::milliseconds(50);

  Deadline late_at(const GuardDeadlines& when) const noexcept {
    return later(std::min(when.kill_at, when.stop_by), half_);
  }

  const Duration half_;
  Deadline look_again_ = no_deadline;
  bool acted_ = false;
};

}  // namespace dlock::run
