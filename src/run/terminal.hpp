// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <termios.h>
#include "run/plan.hpp"

namespace dlock::run {

// Would nobody continue our group if it stopped? The kernel's own answer is spoilt: the guard, the job's parent in another group
// of the session, counts as somebody. So this asks for our ancestors alone.
bool group_is_orphaned();

// Stops or dies by `signal`'s default action. It is blocked, so it stays pending until it is let in for a moment.
void take_default(int signal);

// The modes of a terminal, given back when the job was killed and could not do it itself.
class TerminalModes {
 public:
  explicit TerminalModes(int tty);  // -1: no terminal
  void restore() const;             // only while we are in its foreground

 private:
  int tty_;
  termios modes_{};  // before known_, whose initializer fills it
  bool known_;
};

}  // namespace dlock::run
