// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/facts.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock::redis {
namespace {

std::int64_t number(std::string_view text) noexcept {
  return leading_number<std::int64_t>(text).value_or(0);
}

}  // namespace

std::string_view info_field(std::string_view info, std::string_view field) noexcept {
  for (std::size_t at = info.find(field); at != info.npos; at = info.find(field, at + 1)) {
    const std::size_t colon = at + field.size();
    if ((at != 0 && info[at - 1] != '\n') || colon >= info.size() || info[colon] != ':') continue;
    const std::string_view value = info.substr(colon + 1);
    return value.substr(0, value.find_first_of("\r\n"));
  }
  return {};
}

std::int64_t info_number(std::string_view info, std::string_view field) noexcept {
  return number(info_field(info, field));
}

unsigned info_version(std::string_view info) noexcept {  // "7.0.15"
  std::string_view text = info_field(info, "redis_version");
  const auto first = std::clamp<std::int64_t>(number(next_part(text, '.')), 0, 99);
  if (text.empty()) return 0;
  return static_cast<unsigned>(first * 100 + std::clamp<std::int64_t>(number(text), 0, 99));
}

Duration ServerFacts::grace_left(Duration grace) const noexcept {
  const auto lived = uptime + std::chrono::duration_cast<Duration>(Clock::now() - read_at);
  return std::max(Duration{}, grace - lived);
}

void ServerFacts::read(std::string_view info) {
  read_at = Clock::now();
  version = info_version(info);
  run_id = info_field(info, "run_id");
  cluster = info_field(info, "redis_mode") == "cluster";
  // Redis truncates its start and the present time to whole seconds, so the difference may be
  // almost a second too much.
  uptime = std::chrono::seconds{
      std::clamp<std::int64_t>(info_number(info, "uptime_in_seconds") - 1, 0, 1'000'000'000)};
  replica = info_field(info, "role") == "slave";
  // A policy that evicts only keys with an expiry is a danger, too, because dlock's keys have an
  // expiry.
  const auto policy = info_field(info, "maxmemory_policy");
  if (info_number(info, "maxmemory") > 0 && policy != "noeviction") evicts = policy;
}

Result<void> within_grace(LeaseSpan lease, Duration grace) {
  if (grace == Duration{} || lease.whole() <= grace) return {};
  std::string wanted = fmt::format("--ttl {}", format_duration_up(lease.ttl));
  if (lease.lock_delay > Duration{})
    wanted += fmt::format(" with --lock-delay {} is {}, which",
                          format_duration_up(lease.lock_delay), format_duration_up(lease.whole()));
  return fail(Errc::usage,
              "{} is longer than restart_grace={}, after which a restarted server grants "
              "again: shorten it, or put restart_grace={} into the URL of all clients",
              wanted, format_duration(grace), format_duration_up(lease.whole()));
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
