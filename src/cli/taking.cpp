// SPDX-License-Identifier: Apache-2.0
#include "cli/taking.hpp"
#include <fmt/format.h>
#include "cli/grant_output.hpp"
#include "cli/inherited.hpp"
#include "run/borrowed.hpp"
#include "run/reentrant.hpp"
#include "run/several.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

constexpr Duration shortest_lease = 2s;

// For people; the words as a shell would need them.
std::string command_line_of(const Options& o) {
  if (o.shell_command) return std::string(*o.shell_command);
  std::string text;
  for (char* const* word = o.command; word && *word; ++word) {
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=:,@%+";
    const std::string_view w = *word;
    const bool is_plain = !w.empty() && w.find_first_not_of(plain) == w.npos;
    text.append(text.empty() ? "" : " ").append(is_plain ? std::string(w) : shell_quoted(w));
  }
  constexpr std::size_t longest = 500;
  if (text.size() > longest) text.resize(longest);
  return text;
}

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
Result<run::Timing> times(const Options& o, const Traits& t, Hold hold, bool borrowed) {
  const bool detached = hold == Hold::detached;
  if (detached && o.ttl < shortest_lease && !o.allow_short_ttl)
    return fail(blame(o, "ttl"), fmt::format("{}: must be at least 2s (--allow-short-ttl permits less)", called(o, "ttl")));
  const run::TimingAsked asked{
      .ttl = o.ttl, .op_timeout = o.op_timeout, .kill_after = o.kill_after, .allow_short_ttl = o.allow_short_ttl};
  // Where a lock can outlive its process, one that a keeper renews or that a handle names is such a lease.
  const bool leased = t.liveness != Liveness::process || (t.detached && (hold == Hold::kept || borrowed));
  auto timing = run::plan_timing(asked, t.proves ? t.proves(o.ttl) : o.ttl - drift(o.ttl), !detached && leased);
  if (timing) return timing;
  // plan_timing names the options; if their values came from the environment alone, say so.
  std::string flags, variables;
  for (const std::string_view name : {"ttl", "op-timeout", "kill-after"})
    if (given(o, name)) (given_by_flag(o, name) ? flags : variables) += called(o, name) + ": ";
  if (!flags.empty() || variables.empty()) return timing;
  return fail(Errc::config, variables + timing.error().message);
}

}  // namespace

run::Plan plan_job(const Options& o) {
  run::Plan p{.open = {}, .traits = {}, .request = {.key = Key::parse("-").value(), .owner = {}, .identity = {}}};
  p.wait = o.wait;
  p.conflict_status = o.conflict_status;
  p.command = o.command;
  p.end_signal = o.signal;
  p.on_lost = o.on_lost;
  p.on_lost.bound = o.ttl;
  p.max_run = o.max_run;
  p.min_hold = o.min_hold;
  p.group = o.foreground ? run::Group::same : o.no_foreground ? run::Group::own : run::Group::automatic;
  p.descendants = o.descendants;
  p.publish_environment = !o.no_env;
  p.say = {.quiet = o.quiet,
           .json = o.log_json,
           .verbosity = o.verbosity,
           .status_fd = o.status_fd,
           .status_file = std::string(o.status_file),
           .trace_file = std::string(o.trace),
           .metrics_file = std::string(o.metrics_file)};
  return p;
}

Result<run::Plan> plan_taking(const Options& o, const Store& store, Hold hold) {
  auto keys = parse_keys(o);
  if (!keys) return fail(keys.error());
  if (auto r = recipe_can(o, *store.traits); !r) return fail(r.error());
  std::optional<Handle> handle;
  if (o.handle) {
    auto h = require_handle(o, store);
    if (!h) return fail(h.error());
    if (!store.traits->detached)
      return fail(Errc::usage,
                  fmt::format("--handle: with recipe {} of {} the lock ends with the process that took it, so no other can "
                              "run a command under it; run it without --handle",
                              store.traits->recipe, store.traits->family));
    handle = std::move(*h);
  }
  auto timing = times(o, *store.traits, hold, handle.has_value());
  if (!timing) return fail(timing.error());

  run::Plan p = plan_job(o);
  p.traits = *store.traits;
  p.request = {.key = keys->front(),
               .owner = handle ? handle->owner : Owner::random(),
               .mode = o.mode,
               .limit = o.limit,
               .ttl = o.ttl,
               .lock_delay = o.lock_delay,
               .attached = hold == Hold::attached || (hold == Hold::kept && !store.traits->detached),
               .wait = o.wait != 0us,
               .identity = Identity::mine(std::string(o.reason))};
  p.more_keys.assign(keys->begin() + 1, keys->end());
  p.timing = *timing;
  p.connect_timeout = o.connect_timeout;
  p.splay = o.splay;
  p.once_per = o.once_per;
  p.borrowed = handle.has_value();
  if (p.borrowed) p.splay = p.min_hold = 0us, p.once_per.reset(), p.wait.reset(), p.request.wait = true;
  if (o.publish_command) p.request.identity.command = command_line_of(o);

  std::vector<run::InheritedGrant> outer;
  if (o.verb == Verb::run && !o.no_reentrant && !p.borrowed) {
    const Inherited inherited = find_inherited(store);
    outer = inherited.grants;
    p.inherited_grants = inherited.texts;
  }
  p.open = [store, keys = std::move(*keys), ticket = handle ? handle->extra : std::string(), borrowed = p.borrowed,
            outer = std::move(outer)](const Settings& s) -> Result<std::unique_ptr<Backend>> {
    auto backend = store.open(s);
    if (!backend) return backend;
    if (borrowed) backend = run::borrowed(std::move(*backend), ticket);
    if (!outer.empty()) backend = run::reentrant(std::move(*backend), outer);
    if (keys.size() > 1) backend = run::several(std::move(*backend), keys);
    return backend;
  };
  return p;
}

}  // namespace dlock::cli
