// SPDX-License-Identifier: Apache-2.0
#include "run/entry.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#include <cstdlib>

namespace dlock::run {
namespace {

std::vector<int> open_descriptors() {
  std::vector<int> fds;
  DIR* dir = ::opendir("/proc/self/fd");
  if (!dir) return fds;
  while (const dirent* e = ::readdir(dir)) {
    if (e->d_name[0] == '.') continue;
    const int fd = std::atoi(e->d_name);
    if (fd != ::dirfd(dir)) fds.push_back(fd);
  }
  ::closedir(dir);
  return fds;
}

void fill_standard_descriptors() {
  for (int fd = 0; fd <= 2;) {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (fd > 2) ::close(fd);
  }
}

void (*on_file_size)(int) = SIG_DFL;

}  // namespace

void outlive_file_size_limit() noexcept { on_file_size = ::signal(SIGXFSZ, SIG_IGN); }

Entry::Entry() : group_(::getpgrp()) {
  fill_standard_descriptors();
  sigfillset(&handled_);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE, SIGCHLD})
    sigdelset(&handled_, s);
  sigset_t blocked = handled_;
  sigaddset(&blocked, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &blocked, &before_.mask);
  // if ignored, the kernel would reap the job and its status would be lost
  before_.on_child = ::signal(SIGCHLD, SIG_DFL);
  struct sigaction bus {};
  ::sigaction(SIGBUS, nullptr, &bus);
  before_.on_bus = bus.sa_handler == SIG_IGN ? SIG_IGN : SIG_DFL;
  before_.on_file_size = on_file_size;
}

Fd Entry::open_signals() const { return Fd(::signalfd(-1, &handled_, SFD_CLOEXEC | SFD_NONBLOCK)); }

std::optional<signalfd_siginfo> next_signal(const Fd& signals) {
  signalfd_siginfo s;
  struct sigaction now {};
  while (::read(signals.get(), &s, sizeof s) > 0)
    if (::sigaction(static_cast<int>(s.ssi_signo), nullptr, &now) != 0 || now.sa_handler != SIG_IGN)
      return s;
  return {};
}

// Uses the controlling terminal, whatever stdin is: `dump | dlock run -- ssh ...` reads its
// passphrase from /dev/tty.
Surroundings::Surroundings(pid_t guard)
    : before(children.list()), tty(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  std::erase(before, guard);
  for (const pid_t child : before)
    for (const pid_t p : descendants_of(child, later(Clock::now(), std::chrono::milliseconds{250})))
      if (const auto seen = look_up(p)) below_before.push_back(seen->id);
}

void let_go_of_inherited(int keep) {
  const std::vector<int> all = open_descriptors();
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : all) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (fd == keep || flags < 0 || (flags & FD_CLOEXEC)) continue;
    if (fd < 3 && null) ::dup3(null.get(), fd, O_CLOEXEC);
    else ::close(fd);
  }
}

}  // namespace dlock::run
