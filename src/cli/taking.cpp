// SPDX-License-Identifier: Apache-2.0
#include "cli/taking.hpp"
#include <fmt/format.h>

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

constexpr Duration shortest_lease = 2s;

// Asked here and not only in enqueue(), so that the message can name the option and nothing has been touched.
Result<void> recipe_can(const Options& o, const Traits& t) {
  const auto cannot = [&](std::string_view option, std::string_view what) {
    return fail(blame(o, option), fmt::format("{}: recipe {} of {} has no {}", called(o, option), t.recipe, t.family, what));
  };
  if (o.mode == Mode::shared && !t.shared) return cannot("shared", "shared locks");
  if (o.mode == Mode::permit && !t.permits) return cannot("limit", "permits");
  if (o.lock_delay > 0us && !t.lock_delay) return cannot("lock-delay", "lock-delay");
  if (o.once_per && !t.starts) return cannot("once-per", "record of when jobs were started");
  return {};
}

// A detached lease is renewed by nobody but `dlock renew`, so the start rule does not apply to it; the shortest ttl does.
Result<run::Timing> times(const Options& o, const Traits& t, Hold hold) {
  const bool detached = hold == Hold::detached;
  if (detached && o.ttl < shortest_lease && !o.allow_short_ttl)
    return fail(blame(o, "ttl"), fmt::format("{}: must be at least 2s (--allow-short-ttl permits less)", called(o, "ttl")));
  const run::TimingAsked asked{
      .ttl = o.ttl, .op_timeout = o.op_timeout, .kill_after = o.kill_after, .allow_short_ttl = o.allow_short_ttl};
  auto timing =
      run::plan_timing(asked, t.proves ? t.proves(o.ttl) : o.ttl - drift(o.ttl), !detached && t.liveness != Liveness::process);
  if (timing) return timing;
  // plan_timing names the options; if their values came from the environment alone, say so.
  std::string flags, variables;
  for (const std::string_view name : {"ttl", "op-timeout", "kill-after"})
    if (given(o, name)) (given_by_flag(o, name) ? flags : variables) += called(o, name) + ": ";
  if (!flags.empty() || variables.empty()) return timing;
  return fail(Errc::config, variables + timing.error().message);
}

}  // namespace

Result<run::Plan> plan_taking(const Options& o, const Store& store, Hold hold) {
  auto key = parse_key(o);
  if (!key) return fail(key.error());
  if (auto r = recipe_can(o, *store.traits); !r) return fail(r.error());
  auto timing = times(o, *store.traits, hold);
  if (!timing) return fail(timing.error());

  const bool one_try = o.wait == 0us;
  return run::Plan{
      .open = [store](const Settings& s) { return store.open(s); },
      .traits = *store.traits,
      .request = {.key = *key,
                  .owner = Owner::random(),
                  .mode = o.mode,
                  .limit = o.limit,
                  .ttl = o.ttl,
                  .lock_delay = o.lock_delay,
                  .attached = hold == Hold::attached,
                  .wait = !one_try,
                  .identity = Identity::mine(std::string(o.reason))},
      .wait = o.wait,
      .timing = *timing,
      .connect_timeout = o.connect_timeout,
      .conflict_status = o.conflict_status,
      .splay = o.splay,
      .once_per = o.once_per,
      .command = o.command,
      .end_signal = o.signal,
      .max_run = o.max_run,
      .min_hold = o.min_hold,
      .group = o.foreground      ? run::Group::same
               : o.no_foreground ? run::Group::own
                                 : run::Group::automatic,
      .descendants = o.descendants,
      .publish_environment = !o.no_env,
      .say = {.quiet = o.quiet,
              .verbosity = o.verbosity,
              .status_fd = o.status_fd,
              .status_file = std::string(o.status_file),
              .trace_file = std::string(o.trace)},
  };
}

}  // namespace dlock::cli
