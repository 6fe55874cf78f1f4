// SPDX-License-Identifier: Apache-2.0
// What the command line asks of run/: everything is checked before a Plan exists.
#pragma once
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include "core/backend.hpp"
#include "run/once_per.hpp"
#include "run/timing.hpp"

namespace dlock::run {

enum class Group { automatic, same, own };  // automatic: dlock's own group exactly when /dev/tty opens
enum class Descendants { wait, kill };      // what happens to them once the command itself has ended

struct Say {
  bool quiet = false;  // no own words but errors
  int verbosity = 0;
  int status_fd = -1;                   // JSON lines; inherited, never passed to the job
  std::string status_file, trace_file;  // created 0600 / appended; empty: none
};

struct Plan {
  // The lock.
  std::function<Result<std::unique_ptr<Backend>>(const Settings&)> open;  // called on the keeper's thread
  Traits traits;
  Request request;
  std::optional<Duration> wait;  // nullopt: for ever; zero: one try (then request.wait is false)
  Timing timing;
  Duration connect_timeout{std::chrono::seconds{5}};  // how long an unreachable store is retried at start without -w
  int conflict_status = 75;                           // -E
  Duration splay{};                                   // wait a random part of it before asking
  std::optional<OncePer> once_per;                    // only where Traits::starts

  // The job (run only).
  char* const* command = nullptr;  // NULL-terminated argv; [0] is looked up in PATH
  int end_signal = SIGTERM;        // --signal: what a request to end sends (lost, --max-run)
  Duration max_run{};              // zero: no limit
  Duration min_hold{};
  Group group = Group::automatic;
  Descendants descendants = Descendants::wait;
  bool publish_environment = true;  // DLOCK_*; false: --no-env

  Say say;
};

// How dlock ends: with an exit status, or by the signal that ended the command.
struct Outcome {
  bool by_signal = false;
  int value = 0;
  const char* result = "command";  // for the exit event: command, signal, busy, error, lost, max_run, failed, not_started
};

// Takes the lock, runs the command, releases. Prints what the user should know on stderr. Call it before any thread
// exists, with the signal mask and dispositions that dlock was started with, and end with finish().
Outcome run(const Plan&);

// Takes the lock without a command and calls `on_granted` once; if that answers false (nobody could be told), the lock is
// given back and the status is 125. Detached: ends then with 0. Attached (--hold): holds until stdin ends (0), a signal
// (that signal) or the loss of the lock (123).
Outcome take(const Plan&, const std::function<bool(const Lease&)>& on_granted);

// Ends this process as `outcome` says. A signal is raised with its default disposition and without a core of our own.
[[noreturn]] void finish(Outcome);

}  // namespace dlock::run
