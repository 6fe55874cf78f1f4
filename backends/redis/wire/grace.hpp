// SPDX-License-Identifier: Apache-2.0
// A server that has restarted may have forgotten a lock. So no client is granted one before the
// server has been up for Options::restart_grace, and no lease lasts longer than that.
#pragma once
#include <string>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::redis {

// How long a lease lasts when its holder dies: the least that clients must wait after a restart
// that loses it.
struct LeaseSpan {
  Duration ttl{}, lock_delay{};
  Duration whole() const noexcept { return ttl + lock_delay; }
};

// Errc::usage: after a restart another could hold the lock beside such a lease. A grace of 0 is the
// operator's word that nothing is ever forgotten.
Result<void> within_grace(LeaseSpan, Duration grace);

// The rule behind this, for such a lease, in one sentence for people; or the same error.
Result<std::string> restart_rule(LeaseSpan, Duration grace);

// The message while grants wait for the end of the grace.
std::string grace_note(Duration grace, Duration left);
// Why no holder that is found there does not mean that there is none.
std::string unread_note(Duration grace, Duration left);

}  // namespace dlock::redis
