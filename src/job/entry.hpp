// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/signalfd.h>
#include <sys/types.h>
#include <csignal>
#include <optional>
#include <string>
#include <vector>
#include "job/process.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// A limit on the size of files (ulimit -f) makes our own writes fail with EFBIG instead of killing
// us. Call it first of all; the job gets the original disposition.
void outlive_file_size_limit() noexcept;

// Reads signals that are blocked.
class IncomingSignals {
 public:
  explicit IncomingSignals(const sigset_t& wanted);
  const FailedCall& failed() const noexcept { return failed_; }
  int fd() const noexcept { return fd_.get(); }  // readable when one came
  // The next one that came, or nothing. One that dlock was started with as ignored (nohup) is
  // skipped, and no longer waited for: a blocked signal is queued even when it is ignored, and who
  // sends it in a loop would keep the caller from everything else.
  std::optional<signalfd_siginfo> next();

 private:
  sigset_t wanted_;
  Fd fd_;
  FailedCall failed_;
};

// The state at dlock's start that the job must find again: signal mask, the dispositions of SIGBUS,
// SIGCHLD and SIGXFSZ. dlock does not change anything else (ignored signals, umask, limits,
// terminal, directory, descriptors).
class Entry {
 public:
  // Records the state, then blocks every asynchronous signal, so that they are read from a signalfd
  // and all threads inherit the mask. Call it first, with one thread. A closed 0, 1 or 2 is filled
  // until the exec, so that none of our descriptors gets its number; the job sees it closed.
  Entry();

  // The signals that are handled. Not among them: those that report a fault of our own, and
  // SIGPIPE, which stays blocked and is never read. SIGCHLD is for PID 1 alone, which has others'
  // orphans.
  IncomingSignals open_signals() const { return IncomingSignals(handled_); }

  struct Signals {
    sigset_t mask;
    void (*on_bus)(int);  // SIG_DFL or SIG_IGN, as after each exec
    void (*on_child)(int);
    void (*on_file_size)(int);
  };
  const Signals& signals() const noexcept { return before_; }
  pid_t group() const noexcept { return group_; }

  // Closes inherited descriptors except `keep`; 0, 1 and 2 become /dev/null. A pipe must end when
  // the job closes it, not when dlock and its guard exit. Those that became close-on-exec since
  // then are dlock's, such as --status.
  void close_inherited(int keep = -1) const;

 private:
  sigset_t handled_{};
  Signals before_{};
  std::vector<int> inherited_;
  pid_t group_;
};

// More of the state at dlock's start; read after the fork of the guard, which sets itself up
// meanwhile.
struct PreexistingProcesses {
  // Call it while there is one thread. -1: there is no guard and no job, so only `children` counts.
  explicit PreexistingProcesses(pid_t guard);

  // false: /proc does not list them here, so orphans could not be found
  OwnChildren children;
  // Our children (`sleep 99 & exec dlock ...`) and their descendants, which may become our children:
  // none of them is to be killed by us.
  std::vector<ProcessId> before;  // start 0: not shown in /proc
  Fd tty;                         // /dev/tty, if there is a controlling terminal
};

// The environment as it was, with those changes (job_environment): pointers into both, with nullptr
// at the end.
std::vector<char*> changed_environment(std::string& changes);

}  // namespace dlock::run
