// SPDX-License-Identifier: Apache-2.0
// The times of a lease: when it is renewed, when the job is ended, when a late guard is killed. All
// of it is pure. cli/ plans the times before anything starts, and Policy and Keeper use them.
#pragma once
#include <algorithm>
#include <optional>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "job/event.hpp"

namespace dlock::run {

// When a lease is renewed and when a job is ended, measured from the sending of the last request
// that the store confirmed:
//
//   0        renew_every               term_at            kill_at      proven            ttl
//   |------------|------------- ... ------|------------------|------------|---------------|
//                  each try op_timeout      kill_after          margin       drift
struct Timing {
  Duration proven{};       // L: for this part of the ttl dlock can prove that it holds the lock
  Duration renew_every{};  // L / 3
  Duration op_timeout{};   // for one exchange with the store: by default min(L / 6, 5 s)
  Duration kill_after{};   // between TERM and KILL: by default min(L / 5, 5 s)
  Duration margin{};       // between KILL and the end of L: max(500 ms, L / 20)
  // false: the lock is attached to a descriptor, and only kill_after and op_timeout apply
  bool leased = true;
};

struct TimingOptions {
  Duration ttl{};
  std::optional<Duration> op_timeout, kill_after;
};

// What ends a lock that nobody renews.
enum class EndsBy { lease, descriptor };

// Plans the times. For EndsBy::lease, renew_every + op_timeout + kill_after + margin must fit into
// `proven`, which is ttl - drift(ttl) for most leases. Errc::usage: the message names the options,
// their values and the largest values that would fit.
Result<Timing> plan_timing(const TimingOptions&, Duration proven, EndsBy);

// Returns when to renew a lease that lasts until `deadline`: renew_every after the request for the
// lease was sent. The function finds the time of that request from `deadline`. But the result is at
// least renew_every / 8 from now, and at most renew_every from now. The upper limit matters if the
// deadline is later than `proven` predicts: a new session of ZooKeeper is known to last for its
// whole timeout, but the next renewal may prove only `proven`.
Deadline next_renewal(const Timing&, Deadline deadline, Deadline now) noexcept;
inline auto renewals(const Timing& t) {  // next_renewal() as a function object, for several()
  return [t](Deadline deadline, Deadline now) { return next_renewal(t, deadline, now); };
}

// Decides when dlock kills a guard that did not end the job in time because it is stopped or stuck.
// dlock waits for half a margin after the time when the guard should have sent KILL. Killing the
// guard kills the job. Pure, like Policy, which calls it.
class GuardWatchdog {
 public:
  explicit GuardWatchdog(Duration margin) : half_(margin / 2) {}

  // Returns when to call due(); no_deadline: never.
  Deadline wake_at(const GuardDeadlines& when) const noexcept {
    const Deadline at = acted_ ? no_deadline : late_at(when);
    return at == no_deadline || retry_at_ == no_deadline ? at : std::max(at, retry_at_);
  }

  // Returns whether to kill the guard now; true only once.
  bool due(const GuardDeadlines& when, Deadline now) noexcept {
    const Deadline at = late_at(when);
    if (acted_ || now < at) return false;
    // If dlock itself is late, the cause (a suspend, a frozen cgroup) may have stopped the guard as
    // well. Wait a moment, because the guard may be about to act.
    if (now > later(at, own_lateness) && retry_at_ == no_deadline)
      retry_at_ = later(now, own_lateness);
    if (retry_at_ != no_deadline && now < retry_at_) return false;
    acted_ = true;
    return true;
  }

 private:
  // longer than the delay that a busy machine causes
  static constexpr Duration own_lateness = std::chrono::milliseconds(50);

  Deadline late_at(const GuardDeadlines& when) const noexcept {
    return later(std::min(when.kill_at, when.stop_by), half_);
  }

  const Duration half_;
  Deadline retry_at_ = no_deadline;
  bool acted_ = false;
};

}  // namespace dlock::run
