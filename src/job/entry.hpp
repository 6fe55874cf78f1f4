// SPDX-License-Identifier: Apache-2.0
// The state of the process at dlock's start: what the job must get back, and which processes
// existed before. The main thread reads the state before any other thread exists. dlock and its
// guard use it.
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

// Makes our own writes beyond a limit on the size of files (ulimit -f) fail with EFBIG instead of
// killing us. Call it before anything else. The job gets the original disposition back.
void outlive_file_size_limit() noexcept;

// Reads signals that are blocked.
class IncomingSignals {
 public:
  explicit IncomingSignals(const sigset_t& wanted);
  const FailedCall& failed() const noexcept { return failed_; }
  int fd() const noexcept { return fd_.get(); }  // readable when a signal came
  // Returns the next signal that came, or nothing. It skips a signal that was ignored when dlock
  // started (nohup), and does not read that signal again: the kernel queues a blocked signal even
  // if it is ignored, so a sender in a loop could occupy the caller for ever.
  std::optional<signalfd_siginfo> next();

 private:
  sigset_t wanted_;
  Fd fd_;
  FailedCall failed_;
};

// The state at dlock's start that the job must get back: the signal mask and the dispositions of
// SIGBUS, SIGCHLD and SIGXFSZ. dlock changes nothing else (ignored signals, umask, limits,
// terminal, directory, descriptors).
class Entry {
 public:
  // Records the state, then blocks every asynchronous signal: dlock reads them from a signalfd, and
  // all threads inherit the mask. Call it first, with one thread. If descriptor 0, 1 or 2 is
  // closed, it opens a substitute until the exec, so that none of our descriptors gets that number.
  // The job finds the descriptor closed.
  Entry();

  // Opens the signals that dlock handles. These exclude signals that report a fault of our own, and
  // SIGPIPE, which stays blocked. They include SIGCHLD only for PID 1, which inherits foreign
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

  // Closes inherited descriptors except `keep`; 0, 1 and 2 become /dev/null. So a pipe ends when
  // the job closes it, and not only when dlock and its guard exit. Descriptors that became
  // close-on-exec since the start belong to dlock, such as --status, and stay open.
  void close_inherited(int keep = -1) const;

 private:
  sigset_t handled_{};
  Signals before_{};
  std::vector<int> inherited_;
  pid_t group_;
};

// The processes that existed before dlock started. dlock reads them after the fork of the guard,
// while the guard gets ready.
struct PreexistingProcesses {
  // Call it while there is one thread. -1: there is no guard and no job, so only `children` is
  // filled.
  explicit PreexistingProcesses(pid_t guard);

  // false: /proc does not list our children here, so dlock could not find orphans.
  OwnChildren children;
  // Our children (`sleep 99 & exec dlock ...`) and their descendants, which may become our
  // children. dlock must not kill any of them.
  std::vector<ProcessId> before;  // start 0: not shown in /proc
  Fd tty;                         // /dev/tty, if there is a controlling terminal
};

// Returns the original environment with `changes` (job_environment) applied. The pointers lead into
// both; the last one is nullptr.
std::vector<char*> changed_environment(std::string& changes);

}  // namespace dlock::run
