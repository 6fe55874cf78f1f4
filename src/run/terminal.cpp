// SPDX-License-Identifier: Apache-2.0
#include "run/terminal.hpp"
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include "util/fd.hpp"

namespace dlock::run {

bool group_is_orphaned(pid_t member) {
  const pid_t own_session = ::getsid(member), own_group = ::getpgid(member);
  for (pid_t pid = member;;) {
    char path[64], text[512];
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
    const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
    if (n <= 0) return true;
    text[n] = '\0';
    const char* after_name = std::strrchr(text, ')');  // the name may contain anything
    int parent = 0, group = 0, session = 0;
    if (!after_name || std::sscanf(after_name + 1, " %*c %d %d %d", &parent, &group, &session) != 3)
      return true;
    if (session != own_session) return true;
    if (group != own_group) return false;
    pid = parent;
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
