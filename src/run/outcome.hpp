// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock::run {

// How dlock ends: with an exit status, or by the signal that ended the command.
struct Outcome {
  bool by_signal = false;
  int value = 0;
  // for the exit event: command, signal, busy, error, lost, revoked, max_run, failed, not_started
  const char* result = "command";
};

// Ends this process as `outcome` says. A signal is raised with its default disposition and without
// a core of our own.
[[noreturn]] void finish(Outcome);

}  // namespace dlock::run
