// SPDX-License-Identifier: Apache-2.0
#include "cli/taking.hpp"
#include <fmt/format.h>
#include "cli/grant_output.hpp"
#include "cli/handle.hpp"
#include "cli/inherited.hpp"
#include "cli/say.hpp"
#include "core/duration.hpp"
#include "run/process.hpp"
#include "run/wrap/held_elsewhere.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// For people; quoted for a shell.
std::string command_line_of(const Options& o) {
  if (o.shell_command) return std::string(*o.shell_command);
  std::string text;
  for (char* const* word = o.command; word && *word; ++word) {
    constexpr std::string_view plain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=:,@%+";
    const std::string_view w = *word;
    const bool is_plain = !w.empty() && w.find_first_not_of(plain) == w.npos;
    text.append(text.empty() ? "" : " ").append(is_plain ? std::string(w) : shell_quoted(w));
  }
  constexpr std::size_t longest = 500;
  if (text.size() > longest) text.resize(longest);
  return text;
}

// Checked here and not only in enqueue(), so that the message can name a variable or a file before
// anything is changed.
Result<void> recipe_can(const Options& o, const Traits& t, const Request& request) {
  auto refused = refusal(t, request);
  if (!refused && o.once_per && !t.starts)
    refused = {"once-per", fmt::format("recipe {} of {} has no record of when jobs were started",
                                       t.recipe, t.family)};
  if (!refused) return {};
  return fail(blame(o, refused->option),
              fmt::format("{}: {}", called(o, refused->option), refused->why));
}

// Where a session lasts for both together, a long lock-delay leaves too little of the ttl that can be
// proven. Names the longest one that fits the start rule, to a hundredth of a second.
Result<void> lock_delay_fits(const Options& o, const Store& store, const run::TimingAsked& asked) {
  const auto fits = [&](Duration delay) {
    return run::plan_timing(asked, store.traits->proven_of(o.ttl, delay, store.url), true)
        .has_value();
  };
  if (!fits(0us) || fits(o.lock_delay)) return {};
  Duration most{}, too_long = o.lock_delay;
  while (too_long - most > 10ms) {
    const Duration middle = (most + too_long) / 2;
    (fits(middle) ? most : too_long) = middle;
  }
  return fail(
      blame(o, "lock-delay"),
      fmt::format("{} {}: too long for --ttl {}, of which a session of both together leaves "
                  "too little; use up to {}, or a longer --ttl{}",
                  called(o, "lock-delay"), format_duration(o.lock_delay), format_duration(o.ttl),
                  format_duration(std::chrono::floor<std::chrono::milliseconds>(most)),
                  store.url.item("tick") ? "" : ", or say the servers' tickTime with ?tick="));
}

// Only `dlock renew` renews a detached lease, so the start rule does not apply to it; the shortest
// ttl does.
Result<run::Timing> times(const Options& o, const Store& store, Hold hold, bool borrowed) {
  const Traits& t = *store.traits;
  const bool detached = hold == Hold::detached;
  // If a lock can outlive its process, a kept lock and one that a handle names are leases, too.
  const bool leased =
      t.liveness != Liveness::process || (t.detached && (hold == Hold::kept || borrowed));
  if (detached || leased) TRY_VOID(long_enough(o, store));
  const run::TimingAsked asked{
      .ttl = o.ttl, .op_timeout = o.op_timeout, .kill_after = o.kill_after};
  if (o.lock_delay > 0us) TRY_VOID(lock_delay_fits(o, store, asked));
  auto timing =
      run::plan_timing(asked, t.proven_of(o.ttl, o.lock_delay, store.url), !detached && leased);
  if (timing) return timing;
  // plan_timing names the options; if their values came from the environment alone, the message
  // says so.
  std::string flags, variables;
  for (const std::string_view name : {"ttl", "op-timeout", "kill-after"})
    if (given(o, name)) (given_by_flag(o, name) ? flags : variables) += called(o, name) + ": ";
  if (!flags.empty() || variables.empty()) return timing;
  return fail(Errc::config, variables + timing.error().message);
}

}  // namespace

run::Plan plan_job(const Options& o) {
  run::Plan p{
      .open = {},
      .traits = {},
      .request = {.key = Key::parse("-").value(), .owner = {}, .ttl = o.ttl, .identity = {}}};
  p.wait = o.wait;
  p.conflict_status = o.conflict_status;
  p.command = o.command;
  p.end_signal = o.signal;
  p.on_lost = o.on_lost;
  p.max_run = o.max_run;
  p.min_hold = o.min_hold;
  p.group = o.group;
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
  TRY(keys, parse_keys(o));
  Request request{
      .key = keys.front(),
      .owner = Owner::random(),
      .mode = o.mode,
      .limit = o.limit,
      .ttl = o.ttl,
      .lock_delay = o.lock_delay,
      .attached = hold == Hold::attached || (hold == Hold::kept && !store.traits->detached),
      .wait = o.wait != 0us,
      .identity = Identity::mine(std::string(o.reason))};
  run::identify(request.identity);
  if (hold == Hold::detached) request.identity.kept_by = Identity::KeptBy::nobody;
  if (o.mode == Mode::permit) request.identity.limit = o.limit;
  TRY_VOID(recipe_can(o, *store.traits, request));
  std::optional<Handle> handle;
  if (o.handle) {
    TRY(h, require_handle(o, store));
    if (!store.traits->detached)
      return fail(Errc::usage, fmt::format("--handle: with recipe {} of {} the lock ends with the "
                                           "process that took it, so no other can "
                                           "run a command under it; run it without --handle",
                                           store.traits->recipe, store.traits->family));
    handle = std::move(h);
  }
  TRY(timing, times(o, store, hold, handle.has_value()));

  run::Plan p = plan_job(o);
  p.traits = *store.traits;
  p.request = std::move(request);
  p.more_keys.assign(keys.begin() + 1, keys.end());
  p.timing = timing;
  p.connect_timeout = o.connect_timeout;
  p.splay = o.splay;
  p.once_per = o.once_per;
  p.again = o.again;
  p.until_success = o.until_success;
  p.place = place_of(store);
  p.borrowed = handle.has_value();
  if (p.borrowed)
    p.splay = p.min_hold = 0us, p.once_per.reset(), p.wait.reset(), p.request.wait = true;
  if (o.publish_command) p.request.identity.command = command_line_of(o);

  std::vector<run::InheritedGrant> outer;
  if (o.verb == Verb::run && !o.no_reentrant && !p.borrowed) {
    const Inherited inherited = find_inherited(store);
    outer = inherited.grants;
    p.inherited_grants = inherited.texts;
    if (!inherited.elsewhere.empty() && !o.quiet && !o.explain)
      say(fmt::format("run: {}", inherited.elsewhere));
  }
  p.open = [store, handle = std::move(handle),
            outer = std::move(outer)](const Settings& s) -> Result<std::unique_ptr<Backend>> {
    auto backend = store.open(s);
    if (!backend) return backend;
    if (handle) backend = run::borrowed(std::move(*backend), *handle);
    if (!outer.empty()) backend = run::reentrant(std::move(*backend), outer);
    return backend;
  };
  return p;
}

}  // namespace dlock::cli
