// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include "core/clock.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// A cgroup v2 for the job, below dlock's own, where dlock may create one. Its cgroup.kill ends
// every member at once, even of a job that forks without end; no loop over pids can guarantee that.
// Without it the guard sweeps the tree. No failure here is an error: the object is then empty. The
// guard uses it, and dlock when the guard is dead.
class JobCgroup {
 public:
  // Creates it under a name with the pid of the guard, so that dlock finds it when the guard is
  // dead.
  static JobCgroup create(pid_t guard);
  static JobCgroup find(pid_t guard);

  void kill() const;  // kills every member atomically; needs no descriptor
  // Moves the members into the cgroup around it, as far as it gets in that time.
  void move_members_out(Deadline until) const;
  void remove();  // if it is empty; otherwise it stays
  // Removes it, and also the empty cgroups of guards that were killed. It checks each cgroup there,
  // so do not call it while a thousand dlocks wait at once, or on the way to a job.
  void remove_after_job();
  int fd() const noexcept { return dir_.get(); }
  int kill_fd() const noexcept { return kill_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(dir_); }

 private:
  void open();

  std::string path_;
  Fd dir_, kill_;  // kill_: cgroup.kill, opened early
};

}  // namespace dlock::run
