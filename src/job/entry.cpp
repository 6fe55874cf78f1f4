// SPDX-License-Identifier: Apache-2.0
#include "job/entry.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <string_view>
#include "core/number.hpp"

namespace dlock::run {
namespace {

// Returns the open descriptors that are not close-on-exec. dlock itself opens only close-on-exec
// descriptors, so the others are inherited.
std::vector<int> inherited_descriptors() {
  std::vector<int> found;
  for (const std::string& name : names_in("/proc/self/fd", DT_LNK)) {
    const int fd = parse_number<int>(name).value_or(-1);
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) found.push_back(fd);
  }
  return found;
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
  inherited_ = inherited_descriptors();
  sigfillset(&handled_);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE, SIGCHLD})
    sigdelset(&handled_, s);
  if (::getpid() == 1) sigaddset(&handled_, SIGCHLD);
  sigset_t blocked = handled_;
  sigaddset(&blocked, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &blocked, &before_.mask);
  // If SIGCHLD were ignored, the kernel would reap the job, and the job's status would be lost.
  before_.on_child = ::signal(SIGCHLD, SIG_DFL);
  struct sigaction bus {};
  ::sigaction(SIGBUS, nullptr, &bus);
  before_.on_bus = bus.sa_handler == SIG_IGN ? SIG_IGN : SIG_DFL;
  before_.on_file_size = on_file_size;
}

IncomingSignals::IncomingSignals(const sigset_t& wanted)
    : wanted_(wanted), fd_(::signalfd(-1, &wanted_, SFD_CLOEXEC | SFD_NONBLOCK)) {
  if (!fd_) failed_ = {"signalfd", errno};
}

std::optional<signalfd_siginfo> IncomingSignals::next() {
  signalfd_siginfo s;
  struct sigaction now {};
  while (::read(fd_.get(), &s, sizeof s) > 0) {
    const auto number = static_cast<int>(s.ssi_signo);
    if (::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) return s;
    sigdelset(&wanted_, number);
    ::signalfd(fd_.get(), &wanted_, 0);
  }
  return {};
}

// Opens the controlling terminal even if stdin is a pipe: in `dump | dlock run -- ssh ...`, ssh
// reads its passphrase from /dev/tty.
PreexistingProcesses::PreexistingProcesses(pid_t guard) {
  if (guard < 0) return;
  tty.reset(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  const auto add = [this](pid_t p) {
    const auto process = process_stat(p);
    before.push_back(process ? process->id : ProcessId{p});
  };
  for (const pid_t child : children.list()) {
    if (child == guard) continue;
    add(child);
    for (const pid_t p : descendants_of(child, later(Clock::now(), std::chrono::milliseconds{250})))
      add(p);
  }
}

void Entry::close_inherited(int keep) const {
  Fd null;
  for (const int fd : inherited_) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (fd == keep || flags < 0 || (flags & FD_CLOEXEC) != 0) continue;  // dlock has reused fd
    if (fd > 2) {
      ::close(fd);
      continue;
    }
    if (!null) null.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null) ::dup3(null.get(), fd, O_CLOEXEC);
  }
}

std::vector<char*> changed_environment(std::string& changes) {
  std::vector<char*> all;
  for (char** entry = environ; entry && *entry; ++entry) all.push_back(*entry);
  for (std::size_t at = 0; at < changes.size(); at = changes.find('\0', at) + 1) {
    const std::string_view change = &changes[at];
    const std::string_view name = change.substr(0, change.find('='));
    std::erase_if(all, [=](std::string_view entry) {
      return entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
    });
    if (name != change) all.push_back(&changes[at]);
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace dlock::run
