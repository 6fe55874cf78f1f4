// SPDX-License-Identifier: Apache-2.0
// The state of the process at dlock's start: what the job must get back, and which processes
// already existed. The main thread reads this state before any other thread exists. Both dlock and
// its guard use it.
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

// Ignores SIGXFSZ, which would kill us when a write of ours exceeds the limit on the size of files
// (ulimit -f). Such a write then fails with EFBIG. Call it before anything else. The job gets the
// original disposition back.
void outlive_file_size_limit() noexcept;

// Reads signals that are blocked.
class IncomingSignals {
 public:
  explicit IncomingSignals(const sigset_t& wanted);
  const FailedCall& failed() const noexcept { return failed_; }
  int fd() const noexcept { return fd_.get(); }  // readable when a signal came
  // Returns the next signal that came; nullopt: none came. It skips a signal that was ignored when
  // dlock started (nohup), and from then on does not read that signal any more. The kernel queues a
  // blocked signal even if it is ignored, so a sender in a loop could keep the caller busy for
  // ever.
  std::optional<signalfd_siginfo> next();

 private:
  sigset_t wanted_;
  Fd fd_;
  FailedCall failed_;
};

// The state at dlock's start that the job must get back: the signal mask and the dispositions of
// SIGBUS, SIGCHLD and SIGXFSZ. dlock changes nothing else that a job inherits: ignored signals,
// umask, limits, terminal, directory and descriptors stay as they were.
class Entry {
 public:
  // Records the state, then blocks every asynchronous signal: dlock reads them from a signalfd, and
  // all threads inherit the mask. Call it first, with one thread. If descriptor 0, 1 or 2 is
  // closed, the constructor opens /dev/null under that number, so that none of our descriptors gets
  // it. The substitute is close-on-exec, so the job finds the descriptor closed.
  Entry();

  // Opens a reader for the signals that dlock handles. These are all signals except SIGCHLD,
  // SIGPIPE (it stays blocked) and those that report a fault of our own. As PID 1, dlock handles
  // SIGCHLD, too, because PID 1 inherits foreign orphans.
  IncomingSignals open_signals() const { return IncomingSignals(handled_); }

  struct Signals {
    sigset_t mask;
    void (*on_bus)(int);  // all three: SIG_DFL or SIG_IGN
    void (*on_child)(int);
    void (*on_file_size)(int);
  };
  const Signals& signals() const noexcept { return before_; }
  pid_t group() const noexcept { return group_; }

  // Closes inherited descriptors except `keep`; 0, 1 and 2 become /dev/null. So the reader of a
  // pipe gets end of file when the job closes the pipe, and not only when dlock and its guard exit.
  // A descriptor that has become close-on-exec since the start, such as that of --status, belongs
  // to dlock and stays open.
  void close_inherited(int keep = -1) const;

 private:
  sigset_t handled_{};
  Signals before_{};
  std::vector<int> inherited_;
  pid_t group_;
};

// The processes that existed before dlock started. dlock lists them after the fork of the guard,
// while the guard gets ready.
struct PreexistingProcesses {
  // Call it while there is one thread. `guard` is -1 if there is no guard and no job; then only
  // `children` is filled.
  explicit PreexistingProcesses(pid_t guard);

  // If `children` is false, /proc does not list our children, so dlock could not find orphans.
  OwnChildren children;
  // Our children (`sleep 99 & exec dlock ...`) and their descendants, which may become our
  // children. dlock must not kill any of them.
  std::vector<ProcessId> before;  // ProcessId::start is 0 if /proc does not show the process
  Fd tty;                         // /dev/tty, if there is a controlling terminal
};

// Returns the original environment with `changes` (job_environment) applied. The pointers point
// into the environment and into `changes`; the last pointer is nullptr.
std::vector<char*> changed_environment(std::string& changes);

}  // namespace dlock::run
