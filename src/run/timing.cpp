// SPDX-License-Identifier: Apache-2.0
#include "run/timing.hpp"
#include <fmt/format.h>
#include "core/duration.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

// Makes the error, which suggests only values that dlock accepts.
tl::unexpected<Error> does_not_fit(const Timing& t, const TimingOptions& options) {
  const Duration fixed = t.renew_every + t.margin;
  // rounded down to a value that a user can type
  const auto room = [&](Duration other) {
    return std::chrono::floor<std::chrono::milliseconds>(t.proven - fixed - other);
  };
  std::string ways = "a longer --ttl";
  const auto way = [&](std::string_view option, Duration most, Duration least) {
    if (most >= least) ways += fmt::format(", or {} up to {}", option, format_duration(most));
  };
  way("--op-timeout", room(t.kill_after), 1ms);
  way("--kill-after", room(t.op_timeout), 0ms);
  if (room(0us) > 1ms && room(t.kill_after) < 1ms && room(t.op_timeout) < 0ms)
    ways += ", or shorten both";
  return fail(Errc::usage, "--ttl {} leaves {} for --op-timeout {} and --kill-after {}: use {}",
              format_duration(options.ttl), format_duration(std::max<Duration>(0us, room(0us))),
              format_duration(t.op_timeout), format_duration(t.kill_after), ways);
}

}  // namespace

Result<Timing> plan_timing(const TimingOptions& options, Duration proven, EndsBy ends_by) {
  const bool leased = ends_by == EndsBy::lease;
  Timing t;
  t.leased = leased;
  t.proven = proven;
  t.renew_every = proven / 3;
  t.op_timeout = options.op_timeout.value_or(usual_op_timeout(proven));
  t.kill_after = options.kill_after.value_or(std::min<Duration>(5s, proven / 5));
  t.margin = std::max<Duration>(500ms, proven / 20);
  if (options.op_timeout && *options.op_timeout <= 0us)
    return fail(Errc::usage, "--op-timeout 0: must be longer than 0");
  if (!leased) {
    if (!options.kill_after) t.kill_after = 5s;
    return t;
  }
  if (t.renew_every + t.op_timeout + t.kill_after + t.margin > proven)
    return does_not_fit(t, options);
  return t;
}

Deadline next_renewal(const Timing& t, Deadline deadline, Deadline now) noexcept {
  const Deadline latest = later(now, t.renew_every);
  if (deadline == no_deadline) return latest;
  return std::clamp<Deadline>(deadline - t.proven + t.renew_every, later(now, t.renew_every / 8),
                              latest);
}

}  // namespace dlock::run
