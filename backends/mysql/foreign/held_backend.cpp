// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/held_backend.hpp"
#include <mysqld_error.h>
#include "core/key.hpp"

namespace dlock::mysql {

std::string life_name(const Owner& owner, const std::string& name) {
  return "dl:" + owner.hex() + sha256_hex(name).substr(0, 16);
}

Result<Released> HeldBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string name = name_of(key);
  const Deadline until = client_.usual_deadline();
  return client_.run<Released>(until, false, [&](Connection& c) -> Result<Released> {
    TRY(r, read_record(c, name, until));
    if (!r.held || (token && (!r.ours || r.fence != *token))) return Released::was_not_held;
    if (!r.stays_because.empty()) return fail(cannot(r.stays_because));
    std::uint64_t session = r.conn;
    if (!r.ours) {
      TRY(stranger, session_of(c, name, until));
      session = stranger;
      if (session == 0) return Released::was_not_held;  // no session has the lock any more
    }
    // Clear the record, and then end the session. The cleared record alone would stop the holder
    // only at its next heartbeat, but the holder notices the end of its session at once.
    if (r.ours) {
      TRY_VOID(c.query("force a release", until,
                       "UPDATE {} SET owner='' WHERE name={} AND fence={}", table_, hex(name),
                       r.fence));
    }
    auto killed = c.query("force a release", until, "KILL {}", session);
    if (!killed && c.error_number() != ER_NO_SUCH_THREAD) return fail(std::move(killed.error()));
    // Wait until the server has ended the session and its lock.
    for (;;) {
      TRY(after, read_record(c, name, until));
      if (!after.held || Clock::now() >= until) return Released::yes;
      const auto still = session_of(c, name, until);
      if (still && *still != 0 && *still != session) return Released::yes;
      nap(Duration{1000}, -1);
    }
  });
}

}  // namespace dlock::mysql
