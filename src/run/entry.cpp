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

struct sigaction on_file_size;
bool outlives_file_size = false;

}  // namespace

void outlive_file_size_limit() noexcept {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  outlives_file_size = ::sigaction(SIGXFSZ, &ignore, &on_file_size) == 0;
}

Entry::Entry() : group_(::getpgrp()) {
  fill_standard_descriptors();
  sigfillset(&handled_);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE, SIGCHLD})
    sigdelset(&handled_, s);
  for (int s = 1; s <= SIGRTMAX; ++s) {
    struct sigaction a {};
    if (sigismember(&handled_, s) == 1 && ::sigaction(s, nullptr, &a) == 0 &&
        a.sa_handler == SIG_IGN)
      sigdelset(&handled_, s);
  }
  sigset_t blocked = handled_;
  sigaddset(&blocked, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &blocked, &mask_);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  // if ignored, the kernel would reap the job and its status would be lost
  ::sigaction(SIGCHLD, &standard, &on_child_);
}

void Entry::restore() const noexcept {
  ::sigaction(SIGCHLD, &on_child_, nullptr);
  if (outlives_file_size) ::sigaction(SIGXFSZ, &on_file_size, nullptr);
  // signals sent since the fork arrive here, none is lost
  ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
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
