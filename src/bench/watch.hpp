// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <csignal>
#include <string>
#include "bench/arena.hpp"
#include "util/fd.hpp"

namespace dlock::bench {

// HUP, INT, QUIT and TERM become a readable descriptor during its lifetime, for all threads made
// meanwhile; the first signal ends the benchmark in order. A second one ends the process at once: a
// store that hangs may keep the order waiting.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }
  int received();  // the first signal, 0: none yet

 private:
  sigset_t before_{};
  Fd fd_;
  int received_ = 0;
};

// Progress on stderr: a line that is redrawn, or whole lines. Nothing if the plan asks for none.
class ProgressLine {
 public:
  explicit ProgressLine(const Plan& p) : plan_(p) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Duration every() const noexcept;  // zero: never
  void show(const std::string& title, const Arena&, Nanoseconds since, Nanoseconds of);
  void report(const std::string& line);
  void clear();

 private:
  const Plan& plan_;
  bool drawn_ = false;
};

// Readable, a signal, or the end of the time.
void sleep_until(Deadline, int fd, int signal_fd);

}  // namespace dlock::bench
