// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "job/process.hpp"
#include "job/timer.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The guard's second thread. The guard's first thread may be late because it waits for a page of
// the program or of a library from a disk that hangs. Then this second thread kills the job's tree.
// Its code is one or two pages that call no library, and the only memory that it touches is its own
// stack. Code and stack are locked in memory, as far as RLIMIT_MEMLOCK allows.
//
// The thread acts 100 ms after dlock died or the time to kill passed, unless by then the guard has
// exited or moved the time to kill. 100 ms is a fifth of the shortest margin that a lease leaves
// for the kill (timing.hpp). Once the thread acts, it kills the children of the guard, again and
// again, until the guard exits. When a child dies, the guard inherits that child's children. So the
// whole tree dies, one generation after the other. The thread reaps nothing: only the first thread
// proves by waitpid that the tree is dead, and the first thread holds the locks until then.
//
// Suppose that a guard was stopped for longer than the lease, and that dlock renewed the lease
// meanwhile. When the guard continues, it has 100 ms to read dlock's message about the renewal. If
// the guard takes longer, the job is killed although the lock is held.
//
// If the disk fails instead of hanging, the first thread gets SIGBUS. Its handler is part of the
// locked code: it kills and reaps the tree in the first thread, and then ends the guard.
class Backstop {
 public:
  // The guard's first thread, the parent of the tree, calls all functions. `channel`: the channel
  // to dlock. `kill`: the open file cgroup.kill of the job's cgroup, or -1. The constructor
  // duplicates both.
  Backstop(const OwnChildren&, int channel, int kill);
  // Starts the thread. Call start() before there is a job, with every signal blocked. When it
  // returns, the thread has all that it needs in memory, so no missing page can delay a kill. If a
  // call failed, there is no thread.
  FailedCall start();

  void arm(Deadline kill_at) { timer_.arm(kill_at); }
  // Makes the thread kill nothing, if it has not begun to kill. If the disk fails after this call,
  // the guard exits at once, and does not kill the tree.
  void stand_down();

 private:
  const OwnChildren& children_;
  Timer timer_;
  const Fd channel_, kill_;
  Fd spare_;  // reserves a descriptor number, so that opening a pidfd cannot fail (EMFILE)
};

}  // namespace dlock::run
