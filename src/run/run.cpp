// SPDX-License-Identifier: Apache-2.0
#include "run/run.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <cerrno>
#include <cstring>
#include "job/guard.hpp"
#include "run/supervisor.hpp"

namespace dlock::run {

Outcome run(const Plan& given) {
  // These objects live as long as the process, because the Keeper's thread uses them. No thread
  // joins the Keeper: a client library may block it for ever.
  Plan& own = *new Plan(given);
  const Plan& plan = own;
  Entry& entry = *new Entry;
  if (plan.output.status_fd >= 0) ::fcntl(plan.output.status_fd, F_SETFD, FD_CLOEXEC);
  Output& output = *new Output(plan);
  Fd ours, theirs;
  if (!Channel::make_pair(ours, theirs))
    return output.give_up(
        {Errc::unavailable, fmt::format("no socket pair: {}", std::strerror(errno))});
  // Once the first socket has its name, other processes can see the id of the run in that name, and
  // may take the second name. So both must listen before the fork, while the id can still change.
  InnerHolds &of_guard = *new InnerHolds, &of_dlock = *new InnerHolds;
  for (FailedCall call{"bind", EADDRINUSE}; call.error == EADDRINUSE;) {
    own.id = Owner::random().hex();
    call = of_guard.listen(plan.id, Killer::guard);
    if (!call) call = of_dlock.listen(plan.id, Killer::dlock);
    if (call && call.error != EADDRINUSE) return output.give_up({Errc::unavailable, why(call)});
  }
  const pid_t guard = ::fork();  // before any thread and any client library exists
  if (guard < 0)
    return output.give_up(
        {Errc::unavailable, fmt::format("cannot fork the guard: {}", why({"fork", errno}))});
  if (guard == 0) {
    ours.reset();
    of_dlock.clear();
    // On the heap, because it contains the stacks of children, and our stack may be smaller.
    const GuardedLock lock{plan.request.key, plan.request.ttl, plan.timing.kill_after};
    (new Guard(Channel(std::move(theirs)), entry, plan, lock, of_guard))->run();
  }
  // The guard calls setpgid, too, but may be stopped before that call. This call ensures that the
  // guard's group becomes orphaned if dlock dies. The kernel then continues the stopped guard.
  ::setpgid(guard, guard);
  theirs.reset();
  of_guard.clear();
  // If the guard is killed, dlock inherits its orphans and kills them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  PreexistingProcesses& preexisting = *new PreexistingProcesses(guard);
  if (!preexisting.children)
    return output.give_up(
        {Errc::config,
         "/proc does not list our child processes here: a job could not be ended for certain"});
  return supervise(plan, entry, preexisting, output, Channel(std::move(ours)), guard, of_dlock,
                   nullptr);
}

}  // namespace dlock::run
