// SPDX-License-Identifier: Apache-2.0
// The entry points of run/: what dlock does under a lock. Call one of them before any thread
// exists, with the signal mask and dispositions that dlock was started with. Pass its result to
// finish(). Each returns how dlock has to end. A failure has then already been reported on stderr.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include "report/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// Acquires the lock, runs the command under a guard, and releases the lock when the job is dead.
Outcome run(const Plan&);

// Formats and prints the grant of a lock that is taken without running a command.
struct GrantSink {
  std::function<std::string(const std::vector<Lease>&)> text;  // in the order of the keys
  std::function<bool(std::string_view)> print;                 // false: printing failed
};

// Acquires the lock without a command and prints the grant once. If printing fails, it releases the
// lock, and the status is 125. Detached: dlock ends with 0. Attached (--hold): dlock holds the lock
// until stdin ends (status 0), a signal comes (dlock ends by that signal) or the lock is lost
// (123).
Outcome acquire(const Plan&, const GrantSink&);

struct KeepOptions {
  int watch = -1;       // a pidfd: the end of that process releases the lock; -1: none
  Duration max_hold{};  // zero: no limit
  std::string socket;   // the name to listen on (keeper_socket.hpp); empty: none
};
// Like acquire(), but a separate process keeps the lock in the background, detached from everything
// that it inherited. That process ends when KeepOptions say so, when the lock is released or lost,
// or when a signal comes.
Outcome keep(const Plan&, const GrantSink&, const KeepOptions&);

}  // namespace dlock::run
