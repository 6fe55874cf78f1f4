// SPDX-License-Identifier: Apache-2.0
// What the command line asks of run/: everything is checked before a Plan exists.
#pragma once
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "core/backend.hpp"
#include "run/once_per.hpp"
#include "run/timing.hpp"

namespace dlock::run {

enum class Group { automatic, same, own };  // automatic: dlock's own group exactly when /dev/tty opens
enum class Descendants { wait, kill };      // what happens to them once the command itself has ended

// What happens to the job when the lock is lost. Anything but `kill` gives up the promise that it is dead before others hold the lock.
struct OnLost {
  enum class Do { kill, signal, exec } what = Do::kill;
  int signal = 0;
  std::string command;                       // for /bin/sh -c
  Duration bound{std::chrono::seconds{30}};  // after which the command is killed
};

struct Say {
  bool quiet = false;  // no own words but errors
  bool json = false;   // own words as one JSON object per line
  int verbosity = 0;
  int status_fd = -1;                   // JSON lines; inherited, never passed to the job
  std::string status_file, trace_file;  // created 0600 / appended; empty: none
  std::string metrics_file;             // replaced at the end; empty: none
};

struct Plan {
  // The lock.
  std::function<Result<std::unique_ptr<Backend>>(const Settings&)> open;  // called on the keeper's thread
  Traits traits;
  Request request;
  std::vector<Key> more_keys;    // taken together with request.key, all or none; in the order given
  std::optional<Duration> wait;  // nullopt: for ever; zero: one try (then request.wait is false)
  Timing timing;
  Duration connect_timeout{std::chrono::seconds{5}};  // how long an unreachable store is retried at start without -w
  int conflict_status = 75;                           // -E
  Duration splay{};                                   // wait a random part of it before asking
  std::optional<OncePer> once_per;                    // only where Traits::starts

  // The job (run only).
  char* const* command = nullptr;  // NULL-terminated argv; [0] is looked up in PATH
  int end_signal = SIGTERM;        // --signal: what a request to end sends (lost, --max-run)
  OnLost on_lost;
  Duration max_run{};  // zero: no limit
  Duration min_hold{};
  Group group = Group::automatic;
  Descendants descendants = Descendants::wait;
  bool publish_environment = true;                            // DLOCK_*; false: --no-env
  std::vector<std::pair<Key, std::string>> inherited_grants;  // objects for DLOCK_GRANTS, of the dlocks around this one
  bool borrowed = false;  // run --handle: the lock was taken by somebody else, who gives it back

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

// What becomes of a grant that no command runs under.
struct GrantSink {
  std::function<std::string(const std::vector<Lease>&)> text;  // in the order of the keys
  std::function<bool(std::string_view)> print;                 // false: nobody could be told
};

// Takes the lock without a command and prints the grant once; if that fails the lock is given back and the status is 125.
// Detached: ends then with 0. Attached (--hold): holds until stdin ends (0), a signal (that signal) or the loss of the lock (123).
Outcome take(const Plan&, const GrantSink&);

// The same, and a process of its own keeps the lock in the background, detached from everything that was inherited: until `watch`
// (a pidfd; -1: nobody) is gone, `max_hold` is over, the lock is released or lost, or a signal comes. `socket`: where it listens
// (keeper_socket.hpp); empty: nowhere.
struct KeepFor {
  int watch = -1;
  Duration max_hold{};
  std::string socket;
};
Outcome keep(const Plan&, const GrantSink&, const KeepFor&);

// Ends this process as `outcome` says. A signal is raised with its default disposition and without a core of our own.
[[noreturn]] void finish(Outcome);

}  // namespace dlock::run
