// SPDX-License-Identifier: Apache-2.0
// What dlock does under a lock. Call one of these before any thread exists, with the signal mask
// and dispositions that dlock was started with, and end with finish(). Messages for the user go to
// stderr.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include "report/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// Acquires the lock, runs the command, releases.
Outcome run(const Plan&);

// What to do with a grant that has no command.
struct GrantSink {
  std::function<std::string(const std::vector<Lease>&)> text;  // in the order of the keys
  std::function<bool(std::string_view)> print;                 // false: could not be printed
};

// Acquires the lock without a command and prints the grant once; if that fails the lock is released
// and the status is 125. Detached: then ends with 0. Attached (--hold): holds until stdin ends (0),
// a signal (that signal) or the loss of the lock (123).
Outcome acquire(const Plan&, const GrantSink&);

// acquire(), and a separate process keeps the lock in the background, detached from everything
// inherited: until the process of `watch` (a pidfd; -1: none) has ended, `max_hold` is over, the
// lock is released or lost, or a signal comes. `socket`: the name that it listens on
// (keeper_socket.hpp); empty: none.
struct KeepOptions {
  int watch = -1;
  Duration max_hold{};
  std::string socket;
};
Outcome keep(const Plan&, const GrantSink&, const KeepOptions&);

}  // namespace dlock::run
