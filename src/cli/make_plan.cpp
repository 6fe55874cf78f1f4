// SPDX-License-Identifier: Apache-2.0
#include "cli/make_plan.hpp"
#include <fmt/format.h>
#include "cli/grant.hpp"
#include "cli/say.hpp"
#include "core/duration.hpp"
#include "core/key.hpp"
#include "job/process.hpp"
#include "run/time_zone.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// enqueue() checks this, too. But here the message can name a variable or a file, and nothing has
// been changed yet.
Result<void> check_recipe(const TakingOptions& o, const Traits& t, const Request& request) {
  auto refused = refusal(t, request);
  if (!refused && o.once_per && !t.starts)
    refused = {"once-per", fmt::format("recipe {} of {} has no record of when jobs were started",
                                       t.recipe, t.family)};
  if (!refused && o.max_waiters && !t.fifo)
    refused = {"max-waiters", fmt::format("recipe {} of {} has no queue", t.recipe, t.family)};
  if (!refused) return {};
  return fail(error_code_of(o, refused->option), "{}: {}", display_name(o, refused->option),
              refused->why);
}

// If one session must last for ttl and lock-delay together, a long lock-delay shortens the part of
// the ttl for which dlock can prove that it holds the lock. If that part is too short, this is an
// error. The message names the longest lock-delay that fits, to a hundredth of a second.
Result<void> check_lock_delay(const TakingOptions& o, const Store& store,
                              const run::TimingOptions& options) {
  const auto fits = [&](Duration delay) {
    return run::plan_timing(options, store.traits->proven_of(o.ttl, delay, store.url),
                            run::EndsBy::lease)
        .has_value();
  };
  if (!fits(0us) || fits(o.lock_delay)) return {};
  Duration most{}, too_long = o.lock_delay;
  while (too_long - most > 10ms) {
    const Duration middle = (most + too_long) / 2;
    (fits(middle) ? most : too_long) = middle;
  }
  return fail(error_code_of(o, "lock-delay"),
              "{} {}: too long for --ttl {}, of which a session of both together leaves too "
              "little; use up to {}, or a longer --ttl{}",
              display_name(o, "lock-delay"), format_duration(o.lock_delay), format_duration(o.ttl),
              format_duration(std::chrono::floor<std::chrono::milliseconds>(most)),
              store.url.item("tick") ? "" : ", or say the servers' tickTime with ?tick=");
}

// Computes the times and checks them. For a detached lease it checks only that the ttl is not too
// short. Only `dlock renew` renews such a lease, so neither renewals nor a kill have to fit into
// the ttl.
Result<run::Timing> resolve_timing(const TakingOptions& o, const Store& store, Keeping keeping) {
  const Traits& t = *store.traits;
  const bool detached = keeping == Keeping::nobody;
  // If a recipe's locks can outlive their process, the locks of keepers and of --handle are leases,
  // too.
  const bool leased =
      t.liveness != Liveness::process || (t.detached && (keeping == Keeping::keeper || o.handle));
  if (detached || leased) TRY_VOID(check_ttl(o, store));
  const run::TimingOptions options{
      .ttl = o.ttl, .op_timeout = o.op_timeout, .kill_after = o.kill_after};
  if (o.lock_delay > 0us) TRY_VOID(check_lock_delay(o, store, options));
  auto timing =
      run::plan_timing(options, t.proven_of(o.ttl, o.lock_delay, store.url),
                       !detached && leased ? run::EndsBy::lease : run::EndsBy::descriptor);
  if (timing) return timing;
  // The message of plan_timing() names options. If no value came from the command line, say where
  // they came from.
  std::string flags, variables;
  for (const std::string_view name : {"ttl", "op-timeout", "kill-after"})
    if (given(o, name))
      (given_by_flag(o, name) ? flags : variables) += display_name(o, name) + ": ";
  if (!flags.empty() || variables.empty()) return timing;
  return fail(Errc::config, variables + timing.error().message);
}

}  // namespace

run::Plan plan_job(const TakingOptions& o, Request request) {
  run::Plan p{.open = {}, .traits = {}, .request = std::move(request)};
  static_cast<run::RunOptions&>(p) = o;
  p.output = o;
  return p;
}

Result<run::Plan> make_plan(const TakingOptions& o, const Store& store, Keeping keeping) {
  TRY(keys, parse_keys(o));
  const bool detached = store.traits->detached;
  Request request{
      .key = keys.front(),
      .owner = Owner::random(),
      .mode = o.mode,
      .limit = o.limit,
      .ttl = o.ttl,
      .lock_delay = o.lock_delay,
      .attached = keeping == Keeping::dlock || (keeping == Keeping::keeper && !detached),
      .identity = Identity::mine(std::string(o.reason))};
  run::identify(request.identity);
  if (keeping == Keeping::nobody) request.identity.kept_by = Identity::KeptBy::nobody;
  if (o.mode == Mode::permit) request.identity.limit = o.limit;
  TRY_VOID(check_recipe(o, *store.traits, request));
  run::Plan p = plan_job(o, std::move(request));
  if (o.handle) {
    TRY(handle, require_handle(o, store));
    if (!detached)
      return fail(Errc::usage,
                  "--handle: with recipe {} of {} the lock ends with the process that took it, "
                  "so no other can run a command under it; run it without --handle",
                  store.traits->recipe, store.traits->family);
    p.handle = std::move(handle);
  }
  if (o.once_per && o.once_per->calendar != run::OncePer::Calendar::none)
    TRY_VOID(run::check_time_zone());
  TRY(timing, resolve_timing(o, store, keeping));

  p.traits = *store.traits;
  p.more_keys.assign(keys.begin() + 1, keys.end());
  p.timing = timing;
  p.connect_timeout = store.connect_timeout;
  p.place = place_of(store);
  if (p.handle) {  // the caller already holds the lock
    p.splay = p.min_hold = 0us;
    p.once_per.reset();
    p.wait.reset();
  }
  p.open = store.open;
  return p;
}

}  // namespace dlock::cli
