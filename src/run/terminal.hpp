// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <termios.h>
#include "run/plan.hpp"

namespace dlock::run {

// Whether no process could continue the group of `member` (dlock) if it stopped. The kernel's own
// check does not work here: it counts the guard, the job's parent in another group of the session,
// as one. So this checks dlock's ancestors alone.
bool group_is_orphaned(pid_t member);

// Of a blocked signal.
bool is_pending(int signal);
void drop_pending(int signal);
void let_through(int signal);  // unblocked for a moment
// Stops or dies by `signal`'s default action; a CONT that came since takes back a stop.
void take_default(int signal);

// A controlling terminal, and its modes: restored when the job was killed and could not do it
// itself.
class TerminalModes {
 public:
  explicit TerminalModes(int tty);  // -1: no terminal
  bool terminal_is_gone() const;    // it hung up
  void restore() const;             // only while dlock is in its foreground

 private:
  int tty_;
  termios modes_{};  // before known_, whose initializer fills it
  bool known_;
};

}  // namespace dlock::run
