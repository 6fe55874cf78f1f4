// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include "core/clock.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// A cgroup v2 for the job, below dlock's own cgroup, if dlock may create one. Its cgroup.kill ends
// every member at once, even of a job that forks without end; no loop over pids can guarantee that.
// Without a cgroup the guard kills its children again and again, until the tree is dead. After any
// failure the object is empty; that is not an error. The guard uses the cgroup; when the guard is
// dead, dlock uses it.
class JobCgroup {
 public:
  // Creates the cgroup. Its name contains the pid of the guard, so that dlock can find the cgroup
  // when the guard is dead.
  static JobCgroup create(pid_t guard);
  static JobCgroup find(pid_t guard);

  void kill() const;  // kills every member atomically; needs no free descriptor
  // Moves the members into the cgroup around this one, as many as the time allows.
  void move_members_out(Deadline until) const;
  void remove();  // removes the cgroup if it is empty
  // Removes the cgroup, and empty cgroups of guards that were killed. It checks each cgroup beside
  // this one, which takes time. So do not call it before a job starts, or when a wait begins: a
  // thousand dlocks that wait would all do it.
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
