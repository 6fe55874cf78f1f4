// SPDX-License-Identifier: Apache-2.0
// The second line: how dlock ends the job when the guard is dead, and names the job's members.
#include <sched.h>
#include <sys/wait.h>
#include <algorithm>
#include "run/job_cgroup.hpp"
#include "run/process.hpp"
#include "run/supervisor.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr Duration time_to_name = 250ms;  // at a tree, to name its members

}  // namespace

// Not part of the job: it existed when dlock started, or it is an orphan of such a process and
// older than the guard. An orphan that began later cannot be told from a member of the job, and
// then the promise about the job counts more.
bool Supervisor::foreign(pid_t child) const {
  if (std::find(around_.before.begin(), around_.before.end(), child) != around_.before.end())
    return true;
  const auto seen = look_up(child);
  const auto& below = around_.below_before;
  return seen && (seen->id.start < guard_started_ ||
                  std::find(below.begin(), below.end(), seen->id) != below.end());
}

// The guard is dead and its tree is ours. ECHILD would be the proof, but earlier children must
// live; so the list must be empty three times in a row, after everything was reaped.
void Supervisor::sweep_own() {
  reap_guard();
  auto cgroup = JobCgroup::find(guard_pid_);
  // Guards of runs below are left to end their trees, but not beyond the end of our leases.
  Deadline spared_until = no_deadline;
  for (const Lease& l : leases_) spared_until = std::min(spared_until, l.deadline - 250ms);
  for (int empty = 0, rounds = 0; rounds < 200; ++rounds) {
    const bool spares = Clock::now() < spared_until;
    if (!spares || !cgroup.has_guard()) cgroup.kill();
    auto found = around_.children.list();
    std::erase_if(found, [this](pid_t p) { return foreign(p); });
    kill_children(found, spares);
    for (const pid_t p : found) ::waitpid(p, nullptr, WNOHANG);
    if (around_.before.empty() && found.empty() && ::waitpid(-1, nullptr, WNOHANG) < 0) empty = 3;
    empty = found.empty() ? empty + 1 : 0;
    if (empty < 3) continue;
    cgroup.remove();
    announcer_.job_is_dead();
    return step(event::OwnSweepDone{}, Clock::now());
  }
}

std::vector<pid_t> Supervisor::job_members() const {
  const Deadline until = later(Clock::now(), time_to_name);
  if (!guard_reaped_) return descendants_of(guard_pid_, until);
  std::vector<pid_t> members;
  for (const pid_t child : around_.children.list()) {
    if (foreign(child)) continue;
    members.push_back(child);
    const auto below = descendants_of(child, until);
    members.insert(members.end(), below.begin(), below.end());
  }
  return members;
}

void Supervisor::reap_guard() {
  if (guard_reaped_) return;
  if (const auto seen = look_up(guard_pid_); seen) guard_started_ = seen->id.start;
  ::sched_yield();  // as at the end
  guard_reaped_ = ::waitpid(guard_pid_, nullptr, WNOHANG) == guard_pid_;
}

}  // namespace dlock::run
