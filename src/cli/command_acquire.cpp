// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "cli/command.hpp"
#include "cli/grant.hpp"
#include "cli/make_plan.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/exit_status.hpp"
#include "job/process.hpp"
#include "run/run.hpp"

namespace dlock::cli {
namespace {

// Returns the leader of our process group if it is an ancestor, else our parent. A leader that is
// no ancestor is a neighbour in a pipeline, and may end at any moment.
std::optional<run::ProcessStat> default_caller() {
  const auto leader = run::process_stat(::getpgrp());
  if (leader && leader->id.pid != ::getpid() && run::is_ancestor(leader->id)) return leader;
  return run::process_stat(::getppid());
}

// Returns a pidfd of the process for which the lock is kept: `pid`, or the leader of our process
// group if it is an ancestor, else our parent. It opens the process first and checks it afterwards,
// so a reused pid cannot deceive it. Errc::usage: there is no such process.
Result<Fd> open_caller(std::optional<int> pid) {
  const auto who = pid ? run::process_stat(*pid) : default_caller();
  if (!who) {
    if (pid) return fail(Errc::usage, "--watch-pid: there is no process {}", *pid);
    return fail(
        Errc::usage,
        "acquire --keep: the parent process cannot be seen here; name one with --watch-pid");
  }
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, who->id.pid, 0)));
  if (!fd && errno != ESRCH)
    return fail(Errc::unavailable, "acquire --keep: process {} cannot be watched: {}", who->id.pid,
                ::strerrordesc_np(errno));
  const auto again = run::process_stat(who->id.pid);
  if (!fd || !again || again->id != who->id)
    return fail(Errc::usage, "acquire --keep: process {}, for which the lock would be, has ended",
                who->id.pid);
  return fd;
}

}  // namespace

Result<run::Outcome> command_acquire(const AcquireOptions& o) {
  TRY(store, choose_store(o));
  const bool outlives = store.traits->detached;
  if (!o.hold && !o.keep && !outlives)
    return fail(Errc::usage,
                "acquire: with recipe {} of {} no lock outlives its process; use --keep (a "
                "process in the background keeps it) or --hold (this one does)",
                store.traits->recipe, store.traits->family);
  // Check this before anything is locked, and before run/ fills a closed descriptor with /dev/null.
  if (auto r = stdout_usable(); !r)
    return fail(r.error().code, "acquire: {}: the handle could not be printed", r.error().message);
  const auto keeping = o.hold ? Keeping::dlock : o.keep ? Keeping::keeper : Keeping::nobody;
  TRY(plan, make_plan(o, store, keeping));

  // If the handle was not printed, nobody can renew or release the lock. So dlock releases the lock
  // on the connection that acquired it, and exits with 125. If the release fails too, a message
  // says so, and the lease ends by its --ttl.
  bool have = false;
  const std::string keeper = o.keep && !outlives ? Owner::random().hex() : std::string();
  const run::GrantSink sink{
      .text =
          [&](const auto& leases) {
            const std::string extra = keeper.empty() ? std::string() : keeper_extra(keeper);
            return text_of_grant(o.output, leases, store, o.ttl, extra);
          },
      .print =
          [&](std::string_view text) {
            const auto printed = print(text);
            have = printed.has_value();
            if (!have)
              say(fmt::format("acquire: {}: the lock is given back", printed.error().message));
            return have;
          }};
  if (!o.keep) return run::acquire(plan, sink);
  TRY(caller, open_caller(o.watch_pid));
  const auto outcome =
      run::keep(plan, sink, {.watch = caller.get(), .max_hold = o.max_hold, .socket = keeper});
  if (have || outcome.by_signal || outcome.value != status_ok) return outcome;
  say(fmt::format("acquire: {} has ended: the lock was not taken",
                  o.watch_pid ? "the process that --watch-pid names" : "the caller"));
  return ended(status_busy);
}

}  // namespace dlock::cli
