// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "job/process.hpp"
#include "job/timer.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The guard's second thread. It kills the tree when the guard's first thread is late, because that
// one waits for a page of the program or of a library from a disk that hangs. What this thread runs
// is one page or two of code that calls no library; it touches only its own stack and the kernel.
// Both are locked in memory, as far as RLIMIT_MEMLOCK allows.
//
// It acts when dlock is dead or the time to kill is over, and the guard has not ended, or moved
// that time, 100 ms later: that is a fifth of the shortest margin that a lease leaves for it (see
// timing.hpp). From then on it kills whatever is a child of the guard, and with it, one generation
// after the other, the tree, until the guard exits. It reaps nothing: waitpid stays the first
// thread's proof, and the locks stay held until that has it.
//
// A guard that was stopped for longer than the lease, while dlock renewed it, has 100 ms for
// reading that when it goes on; later the job is killed although the lock is held.
//
// If the disk fails instead of hanging, the first thread gets SIGBUS: the same code then kills and
// reaps in that thread, and the guard exits.
class Backstop {
 public:
  // In the guard's first thread, which is the parent of the tree. `channel`: to dlock; `kill`:
  // cgroup.kill, or -1: both are duplicated.
  Backstop(const OwnChildren&, int channel, int kill);
  // Call it before there is a job, with every signal blocked. When it returns, all that the thread
  // needs is in memory, so that no page that is missing from then on can keep it from killing.
  // The call that failed, if one did: then there is no thread.
  FailedCall start();

  void arm(Deadline kill_at) { timer_.arm(kill_at); }
  // From now on nothing is killed, unless the thread has begun to kill; a disk that fails ends the
  // guard at once.
  void stand_down();

 private:
  const OwnChildren& children_;
  Timer timer_;
  const Fd channel_, kill_;
  Fd spare_;  // its place is for a pidfd
};

}  // namespace dlock::run
