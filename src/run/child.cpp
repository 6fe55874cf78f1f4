// SPDX-License-Identifier: Apache-2.0
#include "run/child.hpp"
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace dlock::run {
namespace {

[[noreturn]] void become(const Child& c, pid_t guard) {
  ::setpgid(0, c.group);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(125);  // it died between fork and prctl
  ::signal(SIGBUS, c.signals.on_bus);
  ::signal(SIGCHLD, c.signals.on_child);
  ::signal(SIGXFSZ, c.signals.on_file_size);
  ::sigprocmask(SIG_SETMASK, &c.signals.mask, nullptr);
  ::execvpe(c.file, c.words, c.environment);
  const int error = errno;
  if (c.error_pipe >= 0) (void)!::write(c.error_pipe, &error, sizeof error);
  ::_exit(error == ENOENT ? 127 : 126);
}

// fork(2) into a cgroup.
pid_t fork_into(int cgroup) {
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<std::uint64_t>(cgroup);
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

}  // namespace

pid_t start_child(const Child& child, int cgroup) {
  const pid_t guard = ::getpid();
  pid_t pid = cgroup >= 0 ? fork_into(cgroup) : -1;
  // the cgroup takes no processes (controllers enabled, a limit): continue without it
  if (pid < 0) pid = ::fork();
  if (pid == 0) become(child, guard);
  return pid;
}

}  // namespace dlock::run
