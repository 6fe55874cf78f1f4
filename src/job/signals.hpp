// SPDX-License-Identifier: Apache-2.0
// Signals: their kinds, pending signals, and the terminal, which sends some of them. The main
// threads of dlock and of the guard use these functions, with the signals blocked. Nothing here can
// fail.
#pragma once
#include <sys/types.h>
#include <termios.h>
#include <csignal>
#include "core/clock.hpp"

namespace dlock::run {

// Within this time a repeated signal counts once: timeout(1) signals its child and then its group,
// but means one signal.
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

// Returns whether no process could continue the group of `member` (dlock) if the group stopped. The
// kernel's own check does not work here: the guard is the parent of the job and is in another group
// of the session, so the kernel counts it as a process that could continue the group. So this
// function checks only dlock's ancestors.
bool group_is_orphaned(pid_t member);

// is_pending() and deliver_pending() are for blocked signals.
bool is_pending(int signal);
void drop_pending(int signal);
void deliver_pending(int signal);  // unblocks the signal for a moment
// Stops or dies by the default action of `signal`. A pending CONT cancels a stop.
void default_action(int signal);

// A controlling terminal and its modes at dlock's start. If dlock killed the job, dlock restores
// the modes, because the job could not.
class TerminalModes {
 public:
  explicit TerminalModes(int tty);  // -1: no terminal
  bool terminal_is_gone() const;    // whether the terminal hung up
  void restore() const;             // does nothing unless dlock is in the terminal's foreground

 private:
  int tty_;
  termios modes_{};  // declared before known_, whose initializer fills it
  bool known_;
};

}  // namespace dlock::run
