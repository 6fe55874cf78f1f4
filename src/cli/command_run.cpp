// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>
#include "cli/command.hpp"
#include "cli/grant.hpp"
#include "cli/make_plan.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "run/environment.hpp"
#include "run/run.hpp"
#include "util/fd.hpp"
#include "util/shell.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

using Lines = std::vector<std::pair<std::string_view, std::string>>;  // pairs of label and text

void line(Lines& lines, std::string_view about, std::string_view what) {
  if (!what.empty()) lines.emplace_back(about, what);
}

// Returns the lines as JSON, with _ for spaces in names, and with times as numbers.
std::string json_text(const Lines& lines, const run::Plan& plan) {
  nlohmann::ordered_json j;
  j["keys"] = {printable(plan.request.key.text())};
  for (const Key& key : plan.more_keys) j["keys"].push_back(printable(key.text()));
  for (const auto& [about, what] : lines) {
    std::string name(about);
    for (char& c : name)
      if (c == ' ' || c == '-') c = '_';
    j[name] = what;
  }
  const run::Timing& t = plan.timing;
  j["leased"] = t.leased;
  j["ttl_ms"] = whole_milliseconds(plan.request.ttl);
  j["kill_after_ms"] = whole_milliseconds(t.kill_after);
  j["op_timeout_ms"] = whole_milliseconds(t.op_timeout);
  if (t.leased) {
    j["proven_ms"] = whole_milliseconds(t.proven);
    j["margin_ms"] = whole_milliseconds(t.margin);
    j["renew_every_ms"] = whole_milliseconds(t.renew_every);
  }
  return j.dump() + '\n';
}

std::string what_is_locked(const run::Plan& p, const Store& s, std::string_view where) {
  const Request& r = p.request;
  const std::string limit = r.mode == Mode::permit ? fmt::format(" of {}", r.limit) : "";
  return fmt::format("{} ({}{}) in {}, {} recipe {}", printable(r.key.text()), mode_name(r.mode),
                     limit, printable(where), s.traits->family, s.traits->recipe);
}

std::string waiting(const run::Plan& p) {
  const std::string_view order =
      p.traits.fifo ? "order of arrival is kept" : "no order is promised";
  if (p.one_try()) return fmt::format("no: one try, then busy (status {})", p.conflict_status);
  const std::string limit =
      p.max_waiters ? fmt::format("; busy at once when {} wait already", *p.max_waiters) : "";
  if (!p.wait) return fmt::format("for ever; {}{}", order, limit);
  return fmt::format("at most {}, then busy (status {}); {}{}", format_duration(*p.wait),
                     p.conflict_status, order, limit);
}

std::string ending(const run::Plan& p) {
  if (p.timing.kill_after == 0us) return "KILL at once (--kill-after 0)";
  const char* name = ::sigabbrev_np(p.end_signal);  // nullptr for a real-time signal
  return fmt::format("{}, then KILL {} later (--kill-after)",
                     name ? name : fmt::format("signal {}", p.end_signal),
                     format_duration(p.timing.kill_after));
}

std::string_view descendants(run::Descendants what) {
  switch (what) {
    case run::Descendants::wait: return "waited for when the command has ended";
    case run::Descendants::kill: return "ended when the command has ended";
    case run::Descendants::release: break;
  }
  return "left alone when the command has ended, without the lock; until then they end with it";
}

// Adds the times of a lease. They count from the moment when dlock sent the last request that got a
// reply.
void leased(Lines& text, const run::Timing& t, Duration ttl, const Traits& recipe) {
  // The earliest time at which the lease can end in the store: the store cannot have begun to count
  // before dlock sent the request.
  const Duration free_at = recipe.proven_lifetime ? t.proven : ttl;
  const Duration kill_at = t.proven - t.margin, end_at = kill_at - t.kill_after;
  line(text, "renewed",
       fmt::format("every {}, each try at most {}", format_duration(t.renew_every),
                   format_duration(t.op_timeout)));
  line(text, "if the store is gone",
       fmt::format("from t=0: end signal at {}, KILL at {}; the lease ends at {} here, {} there",
                   format_duration(end_at), format_duration(kill_at), format_duration(t.proven),
                   format_duration(free_at)));
  line(text, "next holder",
       fmt::format("not before {}: no overlap, unless this whole host is frozen; then only a "
                   "comparison of DLOCK_TOKEN helps",
                   format_duration(free_at)));
  line(text, "if dlock dies",
       fmt::format("its guard kills the job; the lock is free after at most {}",
                   format_duration(ttl)));
  line(text, "if dlock is stopped",
       "nothing is renewed, and the guard ends the job in time, as above");
}

void attached(Lines& text, bool releases) {
  line(text, "renewed",
       "never: the lock lasts as long as dlock or its guard lives; there is no deadline");
  line(text, "if dlock dies", "its guard kills the job; the lock is free when the job is dead");
  line(text, "if dlock is stopped", "the lock and the job stay");
  line(text, "next holder",
       releases ? "not before the command has ended, or a --force"
                : "not before the job and all of its descendants are dead, or a --force");
}

// `run --explain`: prints when things would happen, and what the recipe does and does not
// guarantee. It opens the backend to learn its address, but sends no request.
Result<void> explain(const RunCommandOptions& o, const Store& store, const run::Plan& plan) {
  TRY(backend, store.open(plan.timing.op_timeout, -1));
  TRY(after_restart, backend->after_restart(plan.request));

  Lines all;
  line(all, "lock", what_is_locked(plan, store, backend->where()));
  std::string names = backend->replaced_name(plan.request.key);
  for (const Key& key : plan.more_keys)
    if (const auto name = backend->replaced_name(key); !name.empty()) add_part(names, name, "; ");
  line(all, "name", names);
  line(all, "waits", waiting(plan));
  if (plan.timing.leased) leased(all, plan.timing, plan.request.ttl, plan.traits);
  else attached(all, plan.descendants == run::Descendants::release);
  line(all, "to end the job", ending(plan));
  if (plan.once_per)
    line(all, "starts",
         fmt::format("at most one per {}, noted before the command starts{}{}",
                     plan.once_per->described(),
                     plan.until_success ? "; a failed run does not count" : "",
                     plan.again ? "; this run starts all the same (--again)" : ""));
  if (plan.max_run > 0us)
    line(all, "longest run",
         fmt::format("{}, then the job is ended (status 124)", format_duration(plan.max_run)));
  if (plan.min_hold > 0us) line(all, "shortest hold", format_duration(plan.min_hold));
  if (o.lock_delay > 0us)
    line(all, "lock-delay",
         fmt::format("{} in which the lock is not granted if this holder vanishes",
                     format_duration(o.lock_delay)));
  if (o.watch_pid)
    line(all, "watched", fmt::format("process {}: its end ends the command", *o.watch_pid));
  line(all, "descendants", descendants(plan.descendants));
  line(all, "after a restart", after_restart);
  line(all, "weakness", plan.traits.weakness);
  std::string text;
  for (const auto& [about, what] : all) text += fmt::format("{:<22}{}\n", about, what);
  return print(o.json ? json_text(all, plan) : text);
}

// Returns the command line for people to read, quoted for a shell.
std::string command_line_of(const RunCommandOptions& o) {
  if (o.shell_command) return std::string(*o.shell_command);
  std::string text;
  for (char* const* word = o.command; word && *word; ++word) {
    constexpr std::string_view plain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=:,@%+";
    const std::string_view w = *word;
    const bool is_plain = !w.empty() && w.find_first_not_of(plain) == w.npos;
    add_part(text, is_plain ? std::string(w) : shell_quoted(w), " ");
  }
  constexpr std::size_t longest = 500;
  if (text.size() > longest) text.resize(longest);
  return text;
}

// Two paths to the same lock directory are the same place.
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

// Returns a warning if a grant is on another backend; empty: there is none.
std::string elsewhere(const std::vector<InheritedGrant>& grants, const Store& store) {
  for (const InheritedGrant& outer : grants)
    if (!outer.place.empty() && !is_same_place(outer.place, store))
      return fmt::format(
          "the dlock around this one holds '{}' on {}, and this one asks {}: two backends know "
          "nothing of each other (-q hides this)",
          printable(outer.lease.key.text()), printable(outer.place), place_of(store));
  return {};
}

// Checks that the variables for the job fit. Tokens and numbers that are not known yet count with
// their greatest number of digits.
Result<void> fits_into_environment(const run::Plan& p) {
  constexpr std::size_t longest = 128 * 1024;  // the limit for one variable (execve(2))
  constexpr pid_t largest_pid = 1 << 22;
  if (p.more_keys.empty() && p.inherited.empty()) return {};
  std::vector<Lease> leases;
  std::vector<Key> keys{p.request.key};
  keys.insert(keys.end(), p.more_keys.begin(), p.more_keys.end());
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
                "run: --key: {} needs {} bytes for these keys and those of the runs "
                "around this one, and a variable has at most {}; use fewer or shorter "
                "keys, or --no-env",
                variable.substr(0, variable.find('=')), variable.size(), longest - 1);
  }
  return {};
}

// Adds what the job needs, and what the plan publishes about this run.
Result<void> add_job(run::Plan& p, const RunCommandOptions& o, const Store& store) {
  p.publish_id = p.publish_environment = !o.no_env;
  if (o.publish_command) p.request.identity.command = command_line_of(o);
  if (o.no_reentrant || p.handle) return {};
  p.inherited = run::inherited_grants();
  if (const std::string warning = elsewhere(p.inherited, store);
      !warning.empty() && !o.quiet && !o.explain)
    say_warning(fmt::format("run: {}", warning));
  return fits_into_environment(p);
}

// Returns a pidfd of the process that --watch-pid names. Errc::usage: it does not exist; it has
// ended and is not reaped yet; or the number belongs to a thread (EINVAL, on newer kernels ENOENT).
Result<Fd> open_watched(const RunCommandOptions& o) {
  if (!o.watch_pid) return Fd{};
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, *o.watch_pid, 0)));
  pollfd ended{fd.get(), POLLIN, 0};
  if (fd && ::poll(&ended, 1, 0) == 0) return fd;
  if (fd || errno == ESRCH || errno == EINVAL || errno == ENOENT)
    return fail(Errc::usage, "--watch-pid: there is no process {}", *o.watch_pid);
  return fail(Errc::unavailable, "--watch-pid: process {} cannot be watched: {}", *o.watch_pid,
              ::strerrordesc_np(errno));
}

}  // namespace

Result<run::Outcome> command_run(const RunCommandOptions& o) {
  TRY(store, choose_store(o));
  TRY(plan, make_plan(o, store, Keeping::dlock));
  TRY_VOID(add_job(plan, o, store));
  TRY(watched, open_watched(o));
  plan.watched = watched.get();
  if (o.explain) {
    TRY_VOID(explain(o, store, plan));
    return ended(status_ok);
  }
  if (!o.shell_command) return run::run(plan);
  // `-c STR [-- ARG...]`: $0 is "sh", as with sh -c STR sh ARG...
  std::string words[] = {"/bin/sh", "-c", std::string(*o.shell_command), "sh"};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  for (char* const* word = o.command; word && *word; ++word) argv.push_back(*word);
  argv.push_back(nullptr);
  plan.command = argv.data();
  return run::run(plan);
}

}  // namespace dlock::cli
