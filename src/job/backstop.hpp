// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "job/process.hpp"
#include "job/timer.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The guard's second thread. The guard's first thread may be late because it waits for a page of
// the program or of a library from a disk that hangs. Then this thread kills the job's tree. Its
// code is one or two pages that call no library, and it touches no other memory than its own stack.
// Code and stack are locked in memory, as far as RLIMIT_MEMLOCK allows.
//
// It acts 100 ms after dlock died or the time to kill passed, unless by then the guard has exited
// or moved the time to kill. 100 ms is a fifth of the shortest margin that a lease leaves for the
// kill (timing.hpp). From then on it kills each child of the guard, and so the tree, one generation
// after the other, until the guard exits. It reaps nothing: only the first thread proves by waitpid
// that the tree is dead, and the first thread holds the locks until then.
//
// If a guard was stopped for longer than the lease, and dlock renewed the lease meanwhile, the
// guard has 100 ms to read of the renewal. If the guard takes longer, the job is killed although
// the lock is held.
//
// If the disk fails instead of hanging, the first thread gets SIGBUS. Then the same code kills and
// reaps in the first thread, and the guard exits.
class Backstop {
 public:
  // The guard's first thread, the parent of the tree, calls all functions. `channel`: the channel
  // to dlock. `kill`: cgroup.kill, or -1. The constructor duplicates both.
  Backstop(const OwnChildren&, int channel, int kill);
  // Starts the thread. Call it before there is a job, with every signal blocked. When it returns,
  // the thread has all that it needs in memory, so no missing page can delay a kill. If a call
  // failed, there is no thread.
  FailedCall start();

  void arm(Deadline kill_at) { timer_.arm(kill_at); }
  // Tells the thread to kill nothing more, unless it has begun to kill. If the disk fails after
  // that, the guard ends at once.
  void stand_down();

 private:
  const OwnChildren& children_;
  Timer timer_;
  const Fd channel_, kill_;
  Fd spare_;  // reserves a number, so that opening a pidfd cannot fail (EMFILE)
};

}  // namespace dlock::run
