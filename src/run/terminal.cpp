// SPDX-License-Identifier: Apache-2.0
#include "run/terminal.hpp"
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <csignal>
#include "run/process_id.hpp"

namespace dlock::run {

bool group_is_orphaned(pid_t member) {
  const pid_t own_session = ::getsid(member), own_group = ::getpgid(member);
  for (pid_t pid = member;;) {
    const auto seen = look_up(pid);
    if (!seen || seen->session != own_session) return true;
    if (seen->group != own_group) return false;
    pid = seen->parent;
    if (pid <= 0) return true;
  }
}

void take_default(int signal) {
  ::kill(::getpid(), signal);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
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
