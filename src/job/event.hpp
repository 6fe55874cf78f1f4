// SPDX-License-Identifier: Apache-2.0
// The deadlines that dlock sends to the guard, and the events that the guard reports. Both are sent
// as bytes (message.hpp), so nothing in them owns memory.
#pragma once
#include <sys/types.h>
#include <array>
#include <variant>
#include "core/clock.hpp"

namespace dlock::run {

struct GuardDeadlines {
  Deadline term_at = no_deadline;  // from the lease: at this time the lock is lost for good
  Deadline kill_at = no_deadline;  // from the lease: at this time the guard kills the tree
  // From --kill-after or --max-run: at this time the guard kills the tree, but the lock is not
  // lost.
  Deadline stop_by = no_deadline;
};

namespace event {

// The exec of the job succeeded.
struct JobStarted {
  pid_t job = 0;
};
// There is no job, because `call` failed with `error`. `call` is a string literal, which has the
// same address in both processes.
struct StartFailed {
  int error;
  const char* call = "";
};
// The guard forked no job, because term_at had passed.
struct StartRefused {};
struct ExecFailed {
  int error;
};
// orphaned: no process could continue dlock's group if that group stopped.
struct JobStopped {
  int signal;
  bool orphaned;
};
struct JobContinued {};
// The program ended, but descendants still live. left: some of these descendants, each a child of
// the guard. If there are fewer than 8, a 0 follows the last.
struct JobExited {
  int status;
  std::array<pid_t, 8> left{};
};
// --max-run is over, and the guard has sent the end signal to the job.
struct MaxRunOver {};
// term_at passed: the lock is lost. This is final, and the only source of exit status 123.
struct Expired {};
// The guard has begun to kill the tree.
struct Killing {};
// waitpid returned ECHILD: no member of the job is left, and the guard exits. status: the job's
// status, or -1 if there was no job. expired: whether the guard reported Expired; repeated here in
// case that message was lost.
struct TreeDead {
  int status;
  bool expired;
};
// --descendants=release: the program ended. Descendants may still live; the guard leaves them alone
// and exits. status, expired: as in TreeDead.
struct TreeLeft {
  int status;
  bool expired;
};

}  // namespace event

using GuardEvent =
    std::variant<event::JobStarted, event::StartFailed, event::StartRefused, event::ExecFailed,
                 event::JobStopped, event::JobContinued, event::JobExited, event::MaxRunOver,
                 event::Expired, event::Killing, event::TreeDead, event::TreeLeft>;

}  // namespace dlock::run
