// SPDX-License-Identifier: Apache-2.0
// Signals: their kinds, those that wait, and the terminal that sends some.
#pragma once
#include <sys/types.h>
#include <termios.h>
#include <csignal>
#include "core/clock.hpp"

namespace dlock::run {

// timeout(1) signals its child and then its group, and means one signal: the same one within this
// time counts once.
inline constexpr Duration same_request = std::chrono::milliseconds{100};

inline bool is_ending_signal(int signal) noexcept {
  return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT || signal == SIGHUP;
}
inline bool is_stop_signal(int signal) noexcept {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}
inline bool ignored_by_default(int signal) noexcept {
  return signal == SIGCONT || signal == SIGWINCH || signal == SIGURG || signal == SIGCHLD;
}

// Whether no process could continue the group of `member` (dlock) if it stopped. The kernel's own
// check does not work here: it counts the guard, the job's parent in another group of the session,
// as one. So this checks dlock's ancestors alone.
bool group_is_orphaned(pid_t member);

// Of a blocked signal.
bool is_pending(int signal);
void drop_pending(int signal);
void deliver_pending(int signal);  // unblocked for a moment
// Stops or dies by `signal`'s default action; a CONT that came since takes back a stop.
void default_action(int signal);

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
