// SPDX-License-Identifier: Apache-2.0
// Waiting for flock(2) in a way that works with poll(2) and can be ended at any moment.
//
// flock(2) cannot be polled and has no time limit, and repeated tries would lose our place to every
// process that blocks. So a thread blocks in it. To stop that thread it gets SIGURG, whose handler
// does nothing and is installed without SA_RESTART, so that flock returns EINTR. Only this thread
// has SIGURG unblocked. Why this signal: its default is to be ignored, so a stray one does no harm;
// it is never forwarded to a job; real-time signals, which would also work, are forwarded, and one
// meant for the job would be lost here. A forked helper process that blocks on the same open file
// would work, too, but it would be a child that others wait for, and would outlive a SIGKILL of its
// parent.
#pragma once
#include <atomic>
#include <optional>
#include <thread>
#include "util/fd.hpp"

namespace dlock::file {

class FlockWait {
 public:
  // Begins to wait for `operation` (LOCK_EX or LOCK_SH) on `fd`, which must stay open until the end
  // of this object.
  FlockWait(int fd, int operation);
  ~FlockWait() { stop(); }
  FlockWait(const FlockWait&) = delete;
  FlockWait& operator=(const FlockWait&) = delete;

  int ended_fd() const noexcept { return ended_.get(); }  // readable once it has ended
  // Ends the wait, within about a millisecond unless the kernel hangs. 0: the lock was taken; else
  // an errno, EINTR: stopped.
  int stop();

 private:
  void wait(int fd, int operation);

  Fd ended_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> outcome_ = 0;
  std::thread thread_;
};

}  // namespace dlock::file
