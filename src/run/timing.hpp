// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <optional>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "job/event.hpp"

namespace dlock::run {

// When a lease is renewed and when a job is ended, all measured from the sending of the last kept
// renewal:
//
//   0        renew_every               term_at            kill_at      proven            ttl
//   |------------|------------- ... ------|------------------|------------|---------------|
//                  each try op_timeout      kill_after          margin       drift
struct Timing {
  Duration proven{};       // L: the proven part of the requested ttl
  Duration renew_every{};  // L / 3
  Duration op_timeout{};   // one exchange with the store: at most L / 6 and 5 s
  Duration kill_after{};   // between TERM and KILL: by default at most L / 5 and 5 s
  Duration margin{};       // kept free before the end: max(500 ms, L / 20)
  // false: attached to a descriptor; then only kill_after and op_timeout apply
  bool leased = true;
};

struct TimingOptions {
  Duration ttl{};
  std::optional<Duration> op_timeout, kill_after;
};

// What ends a lock that is not renewed.
enum class EndsBy { lease, descriptor };

// Start rule (EndsBy::lease only): renew_every + op_timeout + kill_after + margin must fit into `proven`.
// Errc::usage names the options, their values and the largest that would fit. `proven`: ttl -
// drift(ttl) for a lease.
Result<Timing> plan_timing(const TimingOptions&, Duration proven, EndsBy);

// When a lease that lasts until `deadline` is to be renewed, seen from now: renew_every after its
// request was sent, as far as the deadline shows, and at the latest renew_every from now. A
// deadline may be later than `proven` (a new session of ZooKeeper is known for all of its timeout),
// which does not predict the next renewal's. But never at once: at least an eighth of renew_every
// from now.
Deadline next_renewal(const Timing&, Deadline deadline, Deadline now) noexcept;
inline auto renewals(const Timing& t) {  // the same, as a function
  return [t](Deadline deadline, Deadline now) { return next_renewal(t, deadline, now); };
}

// When dlock kills a guard that did not end the job in time, because it is stopped or stuck: half a
// margin after the time by which the guard was to send KILL. Its death ends the job. Pure, as
// Policy is.
class GuardWatchdog {
 public:
  explicit GuardWatchdog(Duration margin) : half_(margin / 2) {}

  // When due() is to be asked; no_deadline: never.
  Deadline wake_at(const GuardDeadlines& when) const noexcept {
    const Deadline at = acted_ ? no_deadline : late_at(when);
    return at == no_deadline || retry_at_ == no_deadline ? at : std::max(at, retry_at_);
  }

  // The guard is to be killed now; true once.
  bool due(const GuardDeadlines& when, Deadline now) noexcept {
    const Deadline at = late_at(when);
    if (acted_ || now < at) return false;
    // Is dlock late itself? Then the cause (a suspend, a frozen cgroup) may have stopped the guard
    // as well, and it is about to act.
    if (now > later(at, own_lateness) && retry_at_ == no_deadline)
      retry_at_ = later(now, own_lateness);
    if (retry_at_ != no_deadline && now < retry_at_) return false;
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
  Deadline retry_at_ = no_deadline;
  bool acted_ = false;
};

}  // namespace dlock::run
