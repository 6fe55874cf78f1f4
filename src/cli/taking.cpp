// SPDX-License-Identifier: Apache-2.0
#include "cli/taking.hpp"
#include <fmt/format.h>
#include <sys/stat.h>
#include <cstdlib>
#include <optional>
#include "cli/grant.hpp"
#include "cli/say.hpp"
#include "core/duration.hpp"
#include "core/key.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"
#include "job/process.hpp"
#include "run/environment.hpp"
#include "run/time_zone.hpp"
#include "util/shell.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// The command line for people to read, quoted for a shell.
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

// enqueue() checks this as well. Checked here, the message can name a variable or a file, and
// nothing has been changed yet.
Result<void> recipe_can(const Options& o, const Traits& t, const Request& request) {
  auto refused = refusal(t, request);
  if (!refused && o.once_per && !t.starts)
    refused = {"once-per", fmt::format("recipe {} of {} has no record of when jobs were started",
                                       t.recipe, t.family)};
  if (!refused && o.max_waiters && !t.fifo)
    refused = {"max-waiters", fmt::format("recipe {} of {} has no queue", t.recipe, t.family)};
  if (!refused) return {};
  return fail(blame(o, refused->option),
              fmt::format("{}: {}", called(o, refused->option), refused->why));
}

// Where one session must last for ttl and lock-delay together, a long lock-delay leaves too little
// of the ttl that can be proven. The message names the longest lock-delay that fits the start rule,
// to a hundredth of a second.
Result<void> lock_delay_fits(const Options& o, const Store& store,
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
  return fail(
      blame(o, "lock-delay"),
      fmt::format("{} {}: too long for --ttl {}, of which a session of both together leaves too "
                  "little; use up to {}, or a longer --ttl{}",
                  called(o, "lock-delay"), format_duration(o.lock_delay), format_duration(o.ttl),
                  format_duration(std::chrono::floor<std::chrono::milliseconds>(most)),
                  store.url.item("tick") ? "" : ", or say the servers' tickTime with ?tick="));
}

// Whether the lease outlives this process without a keeper that renews it.
bool is_detached(const Options& o) { return o.verb == Verb::acquire && !o.hold && !o.keep; }

// Computes the times and checks them. Only `dlock renew` renews a detached lease, so the start rule
// does not apply to it, but the shortest ttl does.
Result<run::Timing> resolve_timing(const Options& o, const Store& store, bool borrowed) {
  const Traits& t = *store.traits;
  const bool detached = is_detached(o);
  // If a lock can outlive its process, a kept lock and the lock of a handle are leases, too.
  const bool leased = t.liveness != Liveness::process || (t.detached && (o.keep || borrowed));
  if (detached || leased) TRY_VOID(long_enough(o, store));
  const run::TimingOptions options{
      .ttl = o.ttl, .op_timeout = o.op_timeout, .kill_after = o.kill_after};
  if (o.lock_delay > 0us) TRY_VOID(lock_delay_fits(o, store, options));
  auto timing =
      run::plan_timing(options, t.proven_of(o.ttl, o.lock_delay, store.url),
                       !detached && leased ? run::EndsBy::lease : run::EndsBy::descriptor);
  if (timing) return timing;
  // plan_timing names options. If all their values came from the environment, add that.
  std::string flags, variables;
  for (const std::string_view name : {"ttl", "op-timeout", "kill-after"})
    if (given(o, name)) (given_by_flag(o, name) ? flags : variables) += called(o, name) + ": ";
  if (!flags.empty() || variables.empty()) return timing;
  return fail(Errc::config, variables + timing.error().message);
}

// Also true for a lock directory with two paths.
bool is_same_place(const std::string& place, const Store& store) {
  if (place == place_of(store)) return true;
  const auto other = Url::parse(place);
  struct stat one {
  }, two{};
  return other && other->scheme == "file" && store.url.scheme == "file" &&
         other->item("prefix") == store.url.item("prefix") && other->path.starts_with('/') &&
         ::stat(other->path.c_str(), &one) == 0 && ::stat(store.url.path.c_str(), &two) == 0 &&
         one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

// Returns a warning if a grant is on another backend; empty: none is.
std::string elsewhere(const std::vector<InheritedGrant>& grants, const Store& store) {
  for (const InheritedGrant& outer : grants)
    if (!outer.place.empty() && !is_same_place(outer.place, store))
      return fmt::format(
          "the dlock around this one holds '{}' on {}, and this one asks {}: two backends know "
          "nothing of each other (-q hides this)",
          printable(outer.lease.key.text()), printable(outer.place), place_of(store));
  return {};
}

}  // namespace

// Checks that the variables for the job fit. Tokens and numbers that are not known yet count with
// the most digits they can have.
static Result<void> fits_into_environment(const run::Plan& p, const std::vector<Key>& keys) {
  constexpr std::size_t longest = 128 * 1024;  // of one variable (execve(2))
  constexpr pid_t largest_pid = 1 << 22;
  if (p.more_keys.empty() && p.inherited.empty()) return {};
  std::vector<Lease> leases;
  for (const Key& key : keys) {
    leases.push_back({key, p.request.owner, p.request.mode});
    leases.back().token = UINT64_MAX;
    leases.back().slot = p.request.limit;
  }
  const std::string changes = run::job_environment(p, leases, largest_pid);
  for (std::string_view rest = changes; !rest.empty();) {
    const std::string_view variable = next_part(rest, '\0');
    if (variable.size() < longest) continue;
    return fail(Errc::usage,
                fmt::format("run: --key: {} needs {} bytes for these keys and those of the runs "
                            "around this one, and a variable has at most {}; use fewer or shorter "
                            "keys, or --no-env",
                            variable.substr(0, variable.find('=')), variable.size(), longest - 1));
  }
  return {};
}

run::Plan plan_job(const Options& o, Request request) {
  run::Plan p{.open = {}, .traits = {}, .request = std::move(request)};
  static_cast<run::RunOptions&>(p) = o;
  p.publish_id = p.publish_environment = !o.no_env;
  p.output = o;
  return p;
}

Result<run::Plan> plan_taking(const Options& o, const Store& store) {
  TRY(keys, parse_keys(o));
  Request request{.key = keys.front(),
                  .owner = Owner::random(),
                  .mode = o.mode,
                  .limit = o.limit,
                  .ttl = o.ttl,
                  .lock_delay = o.lock_delay,
                  .attached = !is_detached(o) && !(o.keep && store.traits->detached),
                  .identity = Identity::mine(std::string(o.reason))};
  run::identify(request.identity);
  if (is_detached(o)) request.identity.kept_by = Identity::KeptBy::nobody;
  if (o.mode == Mode::permit) request.identity.limit = o.limit;
  TRY_VOID(recipe_can(o, *store.traits, request));
  run::Plan p = plan_job(o, std::move(request));
  if (o.handle) {
    TRY(handle, require_handle(o, store));
    if (!store.traits->detached)
      return fail(
          Errc::usage,
          fmt::format("--handle: with recipe {} of {} the lock ends with the process that took it, "
                      "so no other can run a command under it; run it without --handle",
                      store.traits->recipe, store.traits->family));
    p.handle = std::move(handle);
  }
  if (o.once_per && o.once_per->calendar != run::OncePer::Calendar::none)
    TRY_VOID(run::check_time_zone());
  TRY(timing, resolve_timing(o, store, p.handle.has_value()));

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
  if (o.publish_command) p.request.identity.command = command_line_of(o);

  if (o.verb == Verb::run && !o.no_reentrant && !p.handle) {
    p.inherited = run::inherited_grants();
    if (const std::string warning = elsewhere(p.inherited, store);
        !warning.empty() && !o.quiet && !o.explain)
      say_warning(fmt::format("run: {}", warning));
    TRY_VOID(fits_into_environment(p, keys));
  }
  p.open = [store](const Settings& s) { return store.open(s); };
  return p;
}

}  // namespace dlock::cli
