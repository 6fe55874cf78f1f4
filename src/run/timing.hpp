// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include "core/backend.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

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

struct TimingAsked {
  Duration ttl{};
  std::optional<Duration> op_timeout, kill_after;
};

// Start rule (leased only): renew_every + op_timeout + kill_after + margin must fit into `proven`.
// Errc::usage names the options, their values and the largest that would fit. `proven`: ttl -
// drift(ttl) for a lease.
Result<Timing> plan_timing(const TimingAsked&, Duration proven, bool leased);

// When a lease that lasts until `deadline` is to be renewed, seen from now: renew_every after its
// request was sent, as far as the deadline shows, and at the latest renew_every from now. A
// deadline may be later than `proven` (a new session of ZooKeeper is known for all of its timeout),
// which does not predict the next renewal's. But never at once: at least an eighth of renew_every
// from now.
Deadline next_renewal(const Timing&, Deadline deadline, Deadline now) noexcept;

}  // namespace dlock::run
