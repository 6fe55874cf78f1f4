// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include "core/clock.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// A cgroup v2 for the job, below dlock's, where one may be created. Its cgroup.kill ends every
// member at once, even of a job that forks without end, which no loop over pids can guarantee.
// Without it only the sweep is left.
class JobCgroup {
 public:
  // Creates it, named after `guard`, so that dlock finds it when the guard is dead.
  static JobCgroup create(pid_t guard);
  static JobCgroup find(pid_t guard);

  void kill() const;  // every member, atomically; needs no descriptor
  // Moves the members into the cgroup around it, as far as it gets until then.
  void move_members_out(Deadline until) const;
  void remove();  // once it is empty, otherwise it stays
  // Also those that killed guards left beside it. It looks at each that is there, in use or not, so
  // this is not for the thousand who wait at once, nor for the way to a job.
  void remove_after_job();
  int fd() const noexcept { return dir_.get(); }
  int kill_fd() const noexcept { return kill_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(dir_); }

 private:
  void open();

  std::string path_;
  Fd dir_, kill_;  // kill_: cgroup.kill, opened ahead
};

}  // namespace dlock::run
