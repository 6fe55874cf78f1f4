// SPDX-License-Identifier: Apache-2.0
#include "cli/caller.hpp"
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "run/process.hpp"

namespace dlock::cli {
namespace {

// A leader that is no ancestor is a neighbour in a pipeline, and may end at any moment.
std::optional<run::ProcessStat> default_caller() {
  const auto leader = run::look_up(::getpgrp());
  if (leader && leader->id.pid != ::getpid() && run::is_ancestor(leader->id)) return leader;
  return run::look_up(::getppid());
}

}  // namespace

Result<Fd> open_caller(std::optional<int> pid) {
  const auto who = pid ? run::look_up(*pid) : default_caller();
  if (!who) {
    if (pid) return fail(Errc::usage, fmt::format("--watch-pid: there is no process {}", *pid));
    return fail(
        Errc::usage,
        "acquire --keep: the parent process cannot be seen here; name one with --watch-pid");
  }
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, who->id.pid, 0)));
  if (!fd && errno != ESRCH)
    return fail(Errc::unavailable, fmt::format("acquire --keep: process {} cannot be watched: {}",
                                               who->id.pid, ::strerrordesc_np(errno)));
  const auto again = run::look_up(who->id.pid);
  if (!fd || !again || again->id != who->id)
    return fail(Errc::usage,
                fmt::format("acquire --keep: process {}, for which the lock would be, has ended",
                            who->id.pid));
  return fd;
}

}  // namespace dlock::cli
