// SPDX-License-Identifier: Apache-2.0
// A nested run's lock that ends with a descriptor (file, flock, get-lock, for-update, advisory,
// fence). Whoever ends the outer job kills the inner dlock, the inner guard and the inner job at
// once, and they die in any order. So every process that may kill the inner job holds duplicates of
// the descriptors until the inner job is dead: the guard and the dlock of each run around it.
//
// The inner guard sends the duplicates before its job starts. A message that was sent holds them:
// also while the receiver is stopped and has not read it.
#pragma once
#include <poll.h>
#include <sys/types.h>
#include <optional>
#include <vector>
#include "run/process.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The receiver: in a guard, and in a dlock that has a job. It listens on an abstract Unix socket
// that is named after this process, and takes descriptors from processes of the same user and of
// root; root's also from any descendant. One thread; nothing blocks.
class InnerHolds {
 public:
  // Call it before the job starts; a second call does nothing.
  FailedCall listen();
  void watch(std::vector<pollfd>&) const;  // adds what serve() waits for
  void serve();
  // Stops listening and closes all descriptors: every member of our own job is dead.
  void clear();

 private:
  // The guard of an inner run.
  struct Sender {
    Fd socket;  // empty: the guard died, and nobody knows whether its job is dead
    std::vector<Fd> holds{};
    bool waits = false;  // its next message needs more descriptors than are free
  };
  void accept();
  bool read(Sender&);  // true: descriptors were closed

  Fd listener_;
  bool listener_waits_ = false;  // for a free descriptor
  std::vector<Sender> senders_;
};

// The sender: in a guard.
class OuterHolders {
 public:
  // Sends duplicates to those ancestors of our dlock that listen. They have listened since before
  // our dlock began. Call it before the job starts. If it fails, there must be no job: the lock
  // could end before the job.
  //
  // Not found: ancestors in another PID or network namespace, behind a /proc that hides them, of
  // users other than root and ours, and any where Unix sockets are forbidden.
  FailedCall hand_over(pid_t dlock, const std::vector<Fd>& holds);
  // They close their duplicates. Call it when our job is dead. Without it, if this guard is killed,
  // they keep the duplicates until their own job is dead.
  void job_is_dead();

 private:
  std::optional<FailedCall> walk_up(pid_t dlock, const std::vector<int>& fds);

  std::vector<Fd> connections_;
};

}  // namespace dlock::run
