// SPDX-License-Identifier: Apache-2.0
#include "file/flock/flock_wait.hpp"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <cerrno>
#include <system_error>

namespace dlock::file {
namespace {

constexpr int wake_signal = SIGURG;

void nothing(int) {}

void install_handler() {
  struct sigaction handler {};
  handler.sa_handler = nothing;  // and no SA_RESTART
  ::sigaction(wake_signal, &handler, nullptr);
}

// The new thread begins with every signal blocked: none that the process handles may be delivered
// there.
std::thread with_all_blocked(auto&& body) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  return std::thread(body);
}

}  // namespace

FlockWait::FlockWait(int fd, int operation) : ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!ended_) throw std::system_error(errno, std::generic_category(), "eventfd");
  install_handler();
  thread_ = with_all_blocked([this, fd, operation] { wait(fd, operation); });
}

void FlockWait::wait(int fd, int operation) {
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, wake_signal);
  ::pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);
  int why = EINTR;
  while (why == EINTR && !stopping_) why = ::flock(fd, operation) == 0 ? 0 : errno;
  outcome_ = why;
  const std::uint64_t one = 1;
  (void)!::write(ended_.get(), &one, sizeof one);
}

int FlockWait::stop() {
  if (!thread_.joinable()) return outcome_;
  stopping_ = true;
  // Repeated: a signal that comes between the check of stopping_ and the system call is lost.
  for (pollfd ended{ended_.get(), POLLIN, 0}; ::poll(&ended, 1, 0) <= 0;) {
    ::pthread_kill(thread_.native_handle(), wake_signal);
    if (::poll(&ended, 1, 1) > 0) break;
  }
  thread_.join();
  return outcome_;
}

}  // namespace dlock::file
