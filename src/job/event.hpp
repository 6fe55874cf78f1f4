// SPDX-License-Identifier: Apache-2.0
// What the guard is told of time, and what it reports. Both travel as they are (message.hpp):
// nothing in them owns memory.
#pragma once
#include <sys/types.h>
#include <array>
#include <variant>
#include "core/clock.hpp"

namespace dlock::run {

struct GuardDeadlines {
  Deadline term_at = no_deadline;  // from the lease: when it passes, the lock is lost, for good
  Deadline kill_at = no_deadline;  // from the lease: the tree is killed
  // from --kill-after or --max-run: the tree is killed, the lock is not lost
  Deadline stop_by = no_deadline;
};

namespace event {

// After its exec.
struct JobStarted {
  pid_t job = 0;
};
// There is no job: no process, no descriptor. `call`: a literal, the same in both processes.
struct StartFailed {
  int error;
  const char* call = "";
};
// term_at had passed before the job was forked.
struct StartRefused {};
struct ExecFailed {
  int error;
};
// orphaned: no process could continue our group if it stopped.
struct JobStopped {
  int signal;
  bool orphaned;
};
struct JobContinued {};
// The program, and descendants still live. left: some of those that the guard has as children, and
// 0 behind the last.
struct JobExited {
  int status;
  std::array<pid_t, 8> left{};
};
// --max-run; the job was sent its end signal.
struct MaxRunOver {};
// term_at was reached: lost. The only source of exit 123, a latch.
struct Expired {};
// The tree is being killed.
struct Killing {};
// waitpid returned ECHILD: no member is left, and the guard exits. status: of the job, or -1.
// expired: the latch, in case its own message was lost.
struct TreeDead {
  int status;
  bool expired;
};
// --descendants=release: the program has ended. Descendants may live; the guard has no part in them
// any more, and exits. status, expired: as in TreeDead.
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
