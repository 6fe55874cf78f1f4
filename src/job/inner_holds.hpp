// SPDX-License-Identifier: Apache-2.0
// Keeps the lock of a nested run that ends with a descriptor (file, flock, get-lock, for-update,
// advisory, fence). Whoever ends the outer job kills the inner dlock, the inner guard and the inner
// job at once, and they die in any order. So every process that may kill the inner job keeps the
// lock until the inner job is dead: the guard and the dlock of each run around it.
//
// These processes have no descriptor of the lock itself. The inner guard makes a pair of sockets,
// and sends duplicates of the lock's descriptors into one of them, which nobody reads. Before its
// job starts, it hands that socket out. The duplicates live until somebody reads them, or until no
// process has the socket and no message carries it. When the inner job is dead, the inner guard
// reads them itself. That ends them everywhere, even if a process that keeps the socket is stopped.
#pragma once
#include <poll.h>
#include <string>
#include <string_view>
#include <vector>
#include "job/process.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The two processes of a run that may kill its job.
enum class Killer { guard, dlock };

// The receiver, in a guard, and in a dlock that has a job. It listens on an abstract Unix socket
// whose name has the random id of its run, and takes sockets from processes of the same user. One
// thread uses it. Nothing blocks, and each call does little, whoever connects.
class InnerHolds {
 public:
  // Call it before there is a guard, so that nobody knows the id yet. EADDRINUSE: try another id.
  // Where Unix sockets are forbidden it does nothing: the runs in the job cannot connect either.
  FailedCall listen(std::string_view run, Killer);
  void watch(std::vector<pollfd>&) const;  // adds the descriptors that serve() waits for
  void serve();
  // Stops listening and drops all sockets, because every member of our own job is dead.
  void clear();

 private:
  struct HeldLock {
    Fd socket;
    bool is_orphan = false;  // its guard died, so nobody knows whether its job is dead
  };
  void accept();
  bool read(const Fd& offer);  // true: nothing more comes

  std::vector<HeldLock> holds_;
  std::vector<Fd> offers_;  // connections that have not passed a socket yet
  Fd listener_;
  bool is_full_ = false;  // no descriptor is free, so nothing is read
};

// The sender, in a guard.
class OuterHolders {
 public:
  // Hands the lock to the guard and to the dlock of each of these runs that still lives. Call it
  // before the job starts. If it fails, start no job: the lock could end before the job.
  //
  // It skips runs of another user or in another network namespace, and all runs where Unix sockets
  // are forbidden. It also skips a dlock that has 64 unread messages.
  FailedCall hand_over(const std::vector<std::string>& runs, const std::vector<Fd>& holds);
  // Ends the duplicates, because our job is dead.
  void job_is_dead();

 private:
  FailedCall keep_unread(const std::vector<Fd>& holds);

  Fd our_end_, kept_;
};

// Returns the ids of the runs around this one, from DLOCK_RUNS, without words that are not ids.
// Call it while there is one thread.
std::vector<std::string> runs_around();

}  // namespace dlock::run
