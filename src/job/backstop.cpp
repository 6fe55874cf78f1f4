// SPDX-License-Identifier: Apache-2.0
// CMakeLists.txt turns off instrumentation and stack protector here: both call libraries.
#include "job/backstop.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include "job/raw_call.hpp"

namespace dlock::run {

// The linker defines these symbols from the name of the section.
[[gnu::visibility("hidden")]] extern const char resident_begin[] asm("__start_dlock_resident");
[[gnu::visibility("hidden")]] extern const char resident_end[] asm("__stop_dlock_resident");

namespace {

struct Watched {
  pollfd both[2];  // [0]: the channel to dlock; [1]: the timer
  int children, kill, spare;
  pid_t guard;
};

// The thread touches one page of its stack. The rest is only for the frame of a signal handler.
struct alignas(65536) Resident {
  std::byte stack[65536 - 128];
  alignas(16) Watched watched;
};
Resident resident;
Watched& watched = resident.watched;

constexpr long late_ms = 100;     // after this time the guard's first thread is late
constexpr long longest_ms = 100;  // the longest pause between two kills of the tree

// Waits until a descriptor is ready or the time is over; `ms` < 0: for ever. The asm hides the
// value of `ms` from the compiler, which could otherwise put constants on another page.
[[gnu::section("dlock_resident")]] long wait(pollfd* p, long count, long ms) {
  asm volatile("" : "+r"(ms));
  const timespec t{ms / 1000, ms % 1000 * 1'000'000};
  return raw_call(SYS_ppoll, as_argument(p), count, ms < 0 ? 0 : as_argument(&t), 0, 0);
}

// Kills a child. The first thread may reap the child at any moment, and then the kernel may reuse
// the pid. So kill_child() pins the process first, and then checks that the process is our child.
// If no descriptor is free, it kills without a pin.
[[gnu::section("dlock_resident")]] void kill_child(long pid) {
  const long pin = raw_call(SYS_pidfd_open, pid, 0, 0, 0, 0);
  if (pin < 0) {
    if (pin != -ESRCH) raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0);
    return;
  }
  if (raw_call(SYS_waitid, P_PIDFD, pin, 0, WEXITED | WNOHANG | WNOWAIT, 0) == 0)
    raw_call(SYS_pidfd_send_signal, pin, SIGKILL, 0, 0, 0);
  raw_call(SYS_close, pin, 0, 0, 0, 0);
}

[[gnu::section("dlock_resident")]] void kill_children(int list) {
  char buffer[1024];
  long pid = 0, from = 0;
  for (long n; (n = raw_call(SYS_pread64, list, as_argument(buffer), sizeof buffer, from, 0)) > 0;
       from += n) {
    for (const char* c = buffer; c < buffer + n; ++c) {
      if (*c >= '0' && *c <= '9') {
        pid = pid * 10 + (*c - '0');
      } else {
        if (pid > 0) kill_child(pid);
        pid = 0;
      }
    }
  }
  if (pid > 0) kill_child(pid);
}

[[gnu::section("dlock_resident")]] void kill_tree() {
  const char one = '1';
  if (watched.kill >= 0) raw_call(SYS_write, watched.kill, as_argument(&one), 1, 0, 0);
  kill_children(watched.children);
}

[[gnu::section("dlock_resident")]] long longer(long ms) {
  return ms * 2 < longest_ms ? ms * 2 : longest_ms;
}

[[gnu::section("dlock_resident")]] int stand_by(void*) {
  do {
    wait(watched.both, 2, -1);
    wait(nullptr, 0, late_ms);
  } while (wait(watched.both, 2, 0) <= 0);
  raw_call(SYS_close, watched.spare, 0, 0, 0, 0);
  for (long pause_ms = 1;; pause_ms = longer(pause_ms)) {
    kill_tree();
    wait(nullptr, 0, pause_ms);
  }
}

// Handles SIGBUS, which comes if the disk fails instead of hanging: the code that the guard's first
// thread was about to run cannot be read. The default action would end the guard while the tree
// lives. So this handler kills and reaps the tree before it ends the guard.
[[gnu::section("dlock_resident")]] void on_bus_error(int, siginfo_t* info, void*) {
  if (info->si_code <= 0) return;  // a process sent the signal
  if (raw_call(SYS_getpid, 0, 0, 0, 0, 0) == watched.guard) {
    for (long pause_ms = 1;; pause_ms = longer(pause_ms)) {
      kill_tree();
      long reaped = 1;
      while (reaped > 0) reaped = raw_call(SYS_wait4, -1, 0, WNOHANG, 0, 0);
      if (reaped == -ECHILD) break;
      wait(nullptr, 0, pause_ms);
    }
  }
  raw_call(SYS_exit_group, 125, 0, 0, 0, 0);
}

void keep(const void* begin, const void* end) noexcept {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const auto from = reinterpret_cast<std::uintptr_t>(begin) / page * page;
  const auto to = reinterpret_cast<std::uintptr_t>(end);
  for (auto p = from; p < to; p += page) (void)*reinterpret_cast<const volatile char*>(p);
  ::mlock(reinterpret_cast<const void*>(from), to - from);
}

int duplicate(int fd) { return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0); }

}  // namespace

Backstop::Backstop(const OwnChildren& children, int channel, int kill)
    : children_(children),
      channel_(duplicate(channel)),
      kill_(duplicate(kill)),
      spare_(duplicate(channel)) {}

FailedCall Backstop::start() {
  if (timer_.failed()) return timer_.failed();
  if (!channel_ || !spare_) return {"fcntl", EMFILE};
  // The channel needs no event flags: poll(2) always reports when dlock has closed the channel.
  watched = {{{channel_.get(), 0, 0}, {timer_.fd(), POLLIN, 0}},
             children_.fd(),
             kill_.get(),
             spare_.get(),
             ::getpid()};
  keep(&watched - 1, &watched + 1);
  keep(resident_begin, resident_end);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  if (::sigaction(SIGBUS, &action, nullptr) == 0) ::sigprocmask(SIG_UNBLOCK, &bus, nullptr);
  // This is not a thread of libc: such a thread would cost five more system calls and two more
  // context switches. The new thread uses nothing that the first thread uses, such as libc's record
  // of the first thread.
  constexpr int thread =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  if (::clone(stand_by, std::end(resident.stack), thread, nullptr) < 0) return {"clone", errno};
  (void)spare_.release();
  return {};
}

// When one of the two descriptors is ready, the thread waits 100 ms and then polls both again.
// poll(2) ignores fd -1: the second poll finds neither of them ready, so the thread does not kill.
void Backstop::stand_down() {
  for (pollfd& p : watched.both) p.fd = -1;
  watched.guard = 0;
}

}  // namespace dlock::run
