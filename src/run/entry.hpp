// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <csignal>
#include <optional>
#include <vector>
#include "util/fd.hpp"

namespace dlock::run {

// What dlock was started with, and what the job must find again: signal mask and the disposition of SIGCHLD. Everything else
// (ignored signals, umask, limits, terminal, directory, descriptors) dlock leaves as it is.
class Entry {
 public:
  // Takes stock, then blocks every asynchronous signal, so that they are read from a signalfd and all threads inherit the
  // mask. Call it first, with one thread. A closed 0, 1 or 2 is filled until the exec, so that none of our descriptors lands
  // there; the job sees it closed.
  Entry();

  // Signals to be read from the signalfd. Not among them: those dlock was told to ignore (nohup: a blocked signal is queued even
  // when ignored), those that report a fault of our own, and SIGPIPE, which stays blocked and is never read.
  const sigset_t& handled() const noexcept { return handled_; }
  pid_t group() const noexcept { return group_; }

  // In the forked job, before exec: dispositions and mask as they were. Async-signal-safe.
  void restore() const noexcept;

 private:
  sigset_t mask_{}, handled_{};
  struct sigaction on_child_ {};
  pid_t group_;
};

// What else dlock finds around it; looked up after the guard is forked, which gets ready meanwhile.
struct Surroundings {
  explicit Surroundings(pid_t guard);  // call it while there is one thread

  // `sleep 99 & exec dlock ...`: not ours to kill. nullopt: /proc does not list children here, so no orphan could be found.
  std::optional<std::vector<pid_t>> children;
  Fd tty;  // /dev/tty, if there is a controlling terminal
};

// Closes what was inherited but `keep`; 0, 1 and 2 become /dev/null. A pipe must end when the job closes it, not when dlock
// and its guard leave. Inherited is what is not close-on-exec: all of dlock's own are; so call it before a client library
// that does not know the flag opens anything.
void let_go_of_inherited(int keep = -1);

}  // namespace dlock::run
