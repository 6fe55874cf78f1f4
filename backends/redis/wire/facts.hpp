// SPDX-License-Identifier: Apache-2.0
// What a server reports of itself, and when it may grant: one that has restarted may have forgotten
// a lock. So no client is granted one before the server has been up for Options::restart_grace, and
// no lease lasts longer than that.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::redis {

// The value of `field` in the reply to INFO; empty: not there.
std::string_view info_field(std::string_view info, std::string_view field) noexcept;
// 0: not there, or not a number
std::int64_t info_number(std::string_view info, std::string_view field) noexcept;
// major * 100 + minor; 0: not reported
unsigned info_version(std::string_view info) noexcept;

// Facts that a server reported when the connection was made. As long as the connection stays open,
// it is the same process.
struct ServerFacts {
  unsigned version = 0;  // as info_version
  bool replica = false;
  bool cluster = false;
  Duration
      uptime{};  // at least this long, at `read_at`, by the server's wall clock; 0: not reported
  Deadline read_at{};
  std::string run_id;  // of this process of the server
  // the maxmemory-policy by which it may delete locks; empty: it deletes none
  std::string evicts;

  // How long it may still have lost locks from before its start.
  Duration grace_left(Duration grace) const noexcept;

  // Replies to INFO: the sections server, replication and memory.
  void read(std::string_view info);
};

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
