// SPDX-License-Identifier: Apache-2.0
// A `dlock run` that gets signals, and the groups of checks of the program `signals`.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>
#include "support/process.hpp"
#include "support/pty.hpp"
#include "support/status_events.hpp"

namespace dlock::test {

struct Mode {
  const char* name;
  bool terminal;                     // in a pty
  std::vector<std::string> options;  // of dlock
};
inline const Mode plain{"no terminal", false, {}};  // the job in its own group
inline const Mode foreground{"no terminal, --foreground=yes", false, {"--foreground=yes"}};
inline const Mode pty{"pty", true, {}};  // the job in dlock's group
inline const Mode pty_own{"pty, --foreground=no", true, {"--foreground=no"}};

struct RunAsked {
  Mode mode = plain;
  std::string backend = "fake:";
  std::vector<std::string> options = {};  // more options of dlock
  std::vector<std::string> job;
  std::vector<int> ignored = {}, blocked = {};
  // arguments before dlock's own, such as {"sh", "-c", "... exec \"$@\"", "sh"}
  std::vector<std::string> before = {};
};

const std::string& dlock_program();  // $DLOCK_FAKE
const std::string& signal_job();     // $SIGNAL_JOB

// One dlock, its stdout and its events. Processes that it leaves are killed at the end.
class DlockRun {
 public:
  explicit DlockRun(const RunAsked&);
  ~DlockRun();
  Process& dlock() { return *dlock_; }
  Lines& out() { return *out_; }
  EventStream& events() { return *events_; }
  std::string end(double seconds = 20);  // "exit 7", "signal 15 (TERM)", "still running"
  // Processes of this run that are still alive after `seconds`.
  std::vector<pid_t> left(double seconds = 5) const {
    return carriers_after("DLOCK_TEST_RUN", mark_, seconds);
  }
  std::string complaint() const;  // stderr and events so far, for failure messages

 private:
  TempDir dir_;
  std::string mark_;
  Pty pty_;
  std::optional<Process> dlock_;
  std::optional<Lines> out_;
  std::optional<EventStream> events_;
};

// The same job without dlock.
std::string run_direct(const RunAsked&, double seconds = 20);  // its stdout

// Counts and prints failures; thread-safe.
class Tally {
 public:
  explicit Tally(std::string what) : what_(std::move(what)) {}
  void check(bool ok, const std::string& message);
  bool report(const std::string& more = "") const;  // one line; true: no failures

 private:
  std::string what_;
  mutable std::mutex mutex_;
  std::size_t checks_ = 0, wrong_ = 0;
};

// Calls f(0) ... f(n - 1) from several threads.
void in_parallel(std::size_t n, const std::function<void(std::size_t)>& f);

bool exit_statuses(bool full);
bool killed_by_each_signal();
bool random_signals(std::size_t count, unsigned long seed);
bool forwarded();
bool stops();
bool state_at_entry();

}  // namespace dlock::test
