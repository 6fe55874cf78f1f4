// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include "util/fd.hpp"

namespace dlock::run {

// A cgroup v2 of the job's own, below dlock's, where one may be created. Its cgroup.kill ends every member at once, also of a
// job that forks without end, which no loop over pids does for certain. Where there is none, the sweep alone has to do.
class JobCgroup {
 public:
  // Creates it; `guard` names it, so that dlock finds it again when the guard is dead.
  static JobCgroup create(pid_t guard);
  static JobCgroup find(pid_t guard);

  // fork(2) into the cgroup where there is one, else a plain fork.
  pid_t fork() const;
  void kill() const;  // every member, atomically
  void remove();      // once it is empty; harmless otherwise
  int fd() const noexcept { return dir_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(dir_); }

 private:
  void open();

  std::string path_;
  Fd dir_;
};

}  // namespace dlock::run
