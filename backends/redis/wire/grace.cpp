// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/grace.hpp"
#include <fmt/format.h>
#include "core/duration.hpp"

namespace dlock::redis {

Result<void> within_grace(LeaseSpan lease, Duration grace) {
  if (grace == Duration{} || lease.whole() <= grace) return {};
  std::string asked = fmt::format("--ttl {}", format_duration_up(lease.ttl));
  if (lease.lock_delay > Duration{})
    asked += fmt::format(" with --lock-delay {} is {}, which", format_duration_up(lease.lock_delay),
                         format_duration_up(lease.whole()));
  return fail(
      Errc::usage,
      fmt::format("{} is longer than restart_grace={}, after which a restarted server grants "
                  "again: shorten it, or put restart_grace={} into the URL of all clients",
                  asked, format_duration(grace), format_duration_up(lease.whole())));
}

Result<std::string> restart_rule(LeaseSpan lease, Duration grace) {
  if (grace == Duration{})
    return "the next lock is granted at once (restart_grace=0): nothing may be forgotten, or two "
           "may run";
  TRY_VOID(within_grace(lease, grace));
  return fmt::format(
      "nothing is granted before it has been up for {} (restart_grace); this lease has ended by "
      "then",
      format_duration(grace));
}

std::string grace_note(Duration grace, Duration left) {
  return fmt::format(
      "the server restarted less than {} ago and may have forgotten a lock; grants resume in {}; "
      "?restart_grace=0 if this server never forgets (dlock-redis(7))",
      format_duration(grace), format_duration(left));
}

std::string unread_note(Duration grace, Duration left) {
  return fmt::format(
      "nothing is granted for {}: the server restarted less than {} ago and may have forgotten a "
      "lock",
      format_duration(left), format_duration(grace));
}

}  // namespace dlock::redis
