// SPDX-License-Identifier: Apache-2.0
// What a server reports about itself, and from which time on it may grant locks. A server that has
// restarted may have lost a lock. So dlock takes no lock before the server has been up for
// Options::restart_grace, and no lease lasts longer than that.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::redis {

// Returns the value of `field` in the reply to INFO; empty: it is missing.
std::string_view info_field(std::string_view info, std::string_view field) noexcept;
// 0: missing, or not a number
std::int64_t info_number(std::string_view info, std::string_view field) noexcept;
// major * 100 + minor; 0: not reported
unsigned info_version(std::string_view info) noexcept;

// What a server reported when the connection was made. While the connection stays open, the server
// is the same process.
struct ServerFacts {
  unsigned version = 0;  // as info_version() returns it
  bool replica = false;
  bool cluster = false;
  Duration
      uptime{};  // the server was up at least this long (its wall clock) at `read_at`; 0: unknown
  Deadline read_at{};
  std::string run_id;  // names this process of the server
  // the maxmemory-policy under which the server may delete locks; empty: it deletes none
  std::string evicts;

  // Returns what is left of the grace period. During this time, the server may have forgotten a
  // lock that is still in force.
  Duration grace_left(Duration grace) const noexcept;

  // Reads replies to INFO: sections server, replication and memory.
  void read(std::string_view info);
};

// How long a lease lasts if its holder dies. After a restart that loses the lease, clients must
// wait at least that long.
struct LeaseSpan {
  Duration ttl{}, lock_delay{};
  Duration whole() const noexcept { return ttl + lock_delay; }
};

// Checks that a lease ends within the grace period. Errc::usage: it does not, so after a restart
// another client could hold the lock at the same time. A grace of 0 allows every lease: the
// operator promises that the server never loses anything.
Result<void> within_grace(LeaseSpan, Duration grace);

// Returns a sentence for people that explains within_grace() for this lease, or the error of
// within_grace().
Result<std::string> restart_rule(LeaseSpan, Duration grace);

// Returns the message for a waiter that is granted nothing before the end of the grace period.
std::string grace_note(Duration grace, Duration left);
// Returns why a reply without a holder does not mean that there is no holder.
std::string unread_note(Duration grace, Duration left);

}  // namespace dlock::redis
