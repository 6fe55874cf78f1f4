// SPDX-License-Identifier: Apache-2.0
// A nested run's lock that ends with a descriptor (file, flock, get-lock, for-update, advisory,
// fence). Whoever ends the outer job kills the inner dlock, the inner guard and the inner job at
// once, and they die in any order. So every process that may kill the inner job keeps the lock
// until the inner job is dead: the guard and the dlock of each run around it.
//
// They keep it without a descriptor of the lock. The inner guard makes a pair of sockets, leaves
// duplicates of the lock's descriptors unread in one of them, and hands that socket out before its
// job starts. The duplicates live as long as any process has the socket, or as it is on its way to
// one, and nobody has read them. When the inner job is dead the inner guard reads them itself: that
// ends them everywhere, also where a holder is stopped.
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

// The receiver: in a guard, and in a dlock that has a job. It listens on an abstract Unix socket
// whose name has the random id of its run, and takes sockets from processes of the same user. One
// thread; nothing blocks, and one call does little, whoever connects.
class InnerHolds {
 public:
  // Call it before there is a guard, so that nobody knows the id yet: EADDRINUSE asks for another
  // id. Where Unix sockets are forbidden it does nothing, as the runs in the job cannot connect.
  FailedCall listen(std::string_view run, Killer);
  void watch(std::vector<pollfd>&) const;  // adds what serve() waits for
  void serve();
  // Stops listening and gives all of them up: every member of our own job is dead.
  void clear();

 private:
  struct HeldLock {
    Fd socket;
    bool is_orphan = false;  // its guard died, and nobody knows whether its job is dead
  };
  void accept();
  bool read(const Fd& offer);  // true: nothing more comes

  std::vector<HeldLock> holds_;
  std::vector<Fd> offers_;  // connections on which a socket is to come
  Fd listener_;
  bool is_full_ = false;  // descriptors are scarce: what comes stays unread, and is kept there
};

// The sender: in a guard.
class OuterHolders {
 public:
  // Hands the lock to the guard and to the dlock of each of these runs that still lives. Call it
  // before the job starts. If it fails, there must be no job: the lock could end before the job.
  //
  // A run of another user is not asked; nor is one in another network namespace, or where Unix
  // sockets are forbidden. A dlock that does not take what 64 others sent is passed over.
  FailedCall hand_over(const std::vector<std::string>& runs, const std::vector<Fd>& holds);
  // Our job is dead: the duplicates end.
  void job_is_dead();

 private:
  FailedCall keep_unread(const std::vector<Fd>& holds);

  Fd our_end_, kept_;
};

// Returns the ids of the runs around this one, from DLOCK_RUNS, without words that are not ids.
// Call it while there is one thread.
std::vector<std::string> runs_around();

}  // namespace dlock::run
