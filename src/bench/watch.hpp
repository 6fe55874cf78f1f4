// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <csignal>
#include <string>
#include "bench/arena.hpp"
#include "util/fd.hpp"

namespace dlock::bench {

// While an object of this class exists, it blocks HUP, INT, QUIT and TERM, except those that were
// ignored. A blocked signal makes the object's descriptor readable. Threads that start meanwhile
// inherit the blocked signals. The first signal ends the benchmark in an orderly way. The second
// signal ends the process at once, because a store that hangs may delay the orderly end.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }
  int received();  // returns the first signal, or 0 if none has come

 private:
  sigset_t before_{};
  Fd fd_;
  int received_ = 0;
};

// Progress on stderr: one line that is redrawn, or whole lines, or nothing if the plan asks for
// none.
class ProgressLine {
 public:
  explicit ProgressLine(const Plan& p) : plan_(p) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Duration every() const noexcept;  // how often to call show(); zero: never
  // `since`: how long the measurement has lasted. `of`: how long it will last; zero: unknown.
  void show(const std::string& title, const Arena&, Nanoseconds since, Nanoseconds of);
  void report(const std::string& line);
  void clear();

 private:
  const Plan& plan_;
  bool drawn_ = false;
};

// Returns when a descriptor is readable, a signal has come, or the time is over.
void sleep_until(Deadline, int fd, int signal_fd);

}  // namespace dlock::bench
