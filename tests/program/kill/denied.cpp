// SPDX-License-Identifier: Apache-2.0
// System calls that are refused, as by a container's filter: a run that could not be guarded or
// ended starts no command, and one line names the call. `denied --deny CALL COMMAND...` runs
// COMMAND without it. Programs: $DLOCK_FAKE and $SIGNAL_JOB.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include "signal_run.hpp"
#include "support/options.hpp"

using namespace dlock::test;

namespace {

struct Denied {
  const char* call;
  unsigned number;
  const char* end;     // of dlock
  const char* reason;  // in its one line; nullptr: the command runs
};
const Denied table[] = {
    {"timerfd_create", SYS_timerfd_create, "exit 69", "timerfd_create: Operation not permitted"},
    {"timerfd_settime", SYS_timerfd_settime, "exit 69", "timerfd_settime: Operation not permitted"},
    {"signalfd4", SYS_signalfd4, "exit 69", "signalfd: Operation not permitted"},
    {"eventfd2", SYS_eventfd2, "exit 69", "eventfd: Operation not permitted"},
    {"clone3", SYS_clone3, "exit 69", "cannot start a thread: Operation not permitted"},
    {"wait4", SYS_wait4, "exit 125", "waitpid: Operation not permitted"},
    {"prctl", SYS_prctl, "exit 125", "prctl: Operation not permitted"},
    {"kill", SYS_kill, "exit 125", "kill: Operation not permitted"},
    {"pipe2", SYS_pipe2, "exit 125", "pipe2: Operation not permitted"},
    // they serve the second line alone
    {"pidfd_open", SYS_pidfd_open, "exit 7", nullptr},
    {"mlock", SYS_mlock, "exit 7", nullptr},
    {"setpgid", SYS_setpgid, "exit 7", nullptr},
};

int deny(const char* call, char** command) {
  unsigned number = 0;
  for (const Denied& d : table)
    if (std::strcmp(d.call, call) == 0) number = d.number;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
    ::execvp(command[0], command);
  std::perror(call);
  return 126;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 && std::strcmp(argv[1], "--deny") == 0) return deny(argv[2], argv + 3);
  dlock_program();
  clean_environment();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Tally tally("system calls that are refused");
  for (const Denied& d : table) {
    DlockRun run({.options = {"--ttl", "20s", "-w", "20s"},
                  .job = {"sh", "-c", "echo ran; exit 7"},
                  .before = {"/proc/self/exe", "--deny", d.call}});
    const std::string what = d.call, end = run.end();
    tally.check(end == d.end, what + ": " + end + run.complaint());
    const auto line = run.out().next(20);
    tally.check((line == "ran") == !d.reason, what + ": the command ran or not" + run.complaint());
    const std::string complaint = run.complaint();
    tally.check(!d.reason || complaint.find(d.reason) != complaint.npos, what + complaint);
    tally.check(run.left().empty(), what + ": processes are left");
  }
  // What only the second line needs is not needed for a signal of the user either.
  for (const Denied& d : table) {
    if (d.reason) continue;
    DlockRun run({.options = {"--ttl", "20s"},
                  .job = {signal_job(), "exit", "9"},
                  .before = {"/proc/self/exe", "--deny", d.call}});
    const std::string what = d.call;
    tally.check(run.out().next(20) == "up", what + ": the command did not start");
    run.dlock().signal(SIGTERM);
    tally.check(run.end() == "exit 9", what + ": TERM did not reach the command" + run.complaint());
  }
  return tally.report() ? 0 : 1;
}
