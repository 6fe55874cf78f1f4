// SPDX-License-Identifier: Apache-2.0
// Keeps the lock of a nested run, if that lock ends with a descriptor (file, flock, get-lock,
// for-update, advisory, fence). Whoever ends the outer job kills the inner dlock, the inner guard
// and the inner job at once, and these die in any order. So every process that may kill the inner
// job keeps the inner lock until the inner job is dead: the guard and the dlock of each run around
// the inner run.
//
// These outer processes get no descriptor of the lock itself. The inner guard makes a pair of
// sockets, and sends duplicates of the lock's descriptors to one of the two, where nobody reads
// them. Before the inner job starts, the inner guard hands that socket to the outer processes. The
// duplicates live until somebody reads them, or until no process has the socket and no message
// carries it. When the inner job is dead, the inner guard reads the duplicates itself. That ends
// them everywhere, even if an outer process that keeps the socket is stopped.
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
// whose name contains the random id of its run, and accepts sockets from processes of the same
// user. One thread uses it. No call blocks, and each call does little work, however many processes
// connect.
class InnerHolds {
 public:
  // Call it before there is a guard, so that nobody knows the id yet. EADDRINUSE: try another id.
  // If Unix sockets are forbidden here, listen() does nothing, because the runs in the job cannot
  // connect either.
  FailedCall listen(std::string_view run, Killer);
  void watch(std::vector<pollfd>&) const;  // adds the descriptors that serve() waits for
  void serve();
  // Stops listening and drops all sockets. Call it when every member of our own job is dead. The
  // guard and dlock have an object each, and the fork of the guard copies both objects. So each
  // process must also call clear() on its copy of the other's object.
  void clear();

 private:
  struct HeldLock {
    Fd socket;
    bool is_orphan = false;  // the inner guard died, so nobody knows whether its job is dead
  };
  void accept();
  bool read(const Fd& offer);  // true: this connection is done

  std::vector<HeldLock> holds_;
  std::vector<Fd> offers_;  // connections that have not passed a socket yet
  Fd listener_;
  bool is_full_ = false;  // no descriptor is free, so nothing is read
};

// The sender, in a guard.
class OuterHolders {
 public:
  // Hands the lock to the outer processes: to the guard and the dlock of each of these runs, if
  // they still live. Call it before the job starts. If it fails, start no job: the lock could end
  // before the job.
  //
  // It skips runs of another user or in another network namespace, and all runs if Unix sockets are
  // forbidden. It also skips a dlock that has 64 unread messages.
  FailedCall hand_over(const std::vector<std::string>& runs, const std::vector<Fd>& holds);
  // Ends the duplicates. Call it when our job is dead, or will not start.
  void job_is_dead();

 private:
  FailedCall keep_unread(const std::vector<Fd>& holds);

  Fd our_end_, kept_;
};

// Returns the ids of the runs around this run. It reads DLOCK_RUNS, and ignores words there that
// are not ids. Call it while there is one thread.
std::vector<std::string> runs_around();

}  // namespace dlock::run
