// SPDX-License-Identifier: Apache-2.0
#include "job/signals.hpp"
#include <poll.h>
#include <unistd.h>
#include "job/process.hpp"

namespace dlock::run {

bool group_is_orphaned(pid_t member) {
  const pid_t own_session = ::getsid(member), own_group = ::getpgid(member);
  for (pid_t pid = member;;) {
    const auto process = process_stat(pid);
    if (!process || process->session != own_session) return true;
    if (process->group != own_group) return false;
    pid = process->parent;
    if (pid <= 0) return true;
  }
}

bool is_pending(int signal) {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

static sigset_t just(int signal) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  return one;
}

void drop_pending(int signal) {
  const sigset_t one = just(signal);
  const timespec none{};
  ::sigtimedwait(&one, nullptr, &none);
}

void deliver_pending(int signal) {
  const sigset_t one = just(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

void default_action(int signal) {
  if (is_stop_signal(signal) && is_pending(SIGCONT)) return;
  ::kill(::getpid(), signal);
  deliver_pending(signal);
}

TerminalModes::TerminalModes(int tty)
    : tty_(tty), known_(tty >= 0 && ::tcgetattr(tty, &modes_) == 0) {}

bool TerminalModes::terminal_is_gone() const {
  pollfd p{tty_, 0, 0};
  return tty_ >= 0 && ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

void TerminalModes::restore() const {
  if (known_ && ::tcgetpgrp(tty_) == ::getpgrp()) ::tcsetattr(tty_, TCSADRAIN, &modes_);
}

}  // namespace dlock::run
