// SPDX-License-Identifier: Apache-2.0
// Built without instrumentation and stack protector (CMakeLists.txt): both would call libraries.
#include "run/backstop.hpp"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace dlock::run {

// The linker makes these from the name of the section.
[[gnu::visibility("hidden")]] extern const char resident_begin[] asm("__start_dlock_resident");
[[gnu::visibility("hidden")]] extern const char resident_end[] asm("__stop_dlock_resident");

namespace {

struct Watched {
  pollfd both[2];  // the channel to dlock, and the timer
  int children, kill, spare;
  pid_t guard;
  int stands_by;  // 1: the thread has all that it needs
};
Watched watched;

constexpr long late_ms = 100;     // after that the guard's first thread is late
constexpr long longest_ms = 100;  // between two looks at the tree

// syscall(2) itself is in a library.
[[gnu::section("dlock_resident")]] long call(long number, long a, long b, long c, long d, long e) {
#if defined(__x86_64__)
  long result = number;
  asm volatile("movq %[d], %%r10; movq %[e], %%r8; syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), [d] "r"(d), [e] "r"(e)
               : "rcx", "r8", "r10", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  long result;
  asm volatile(
      "mov x8, %[number]; mov x0, %[a]; mov x1, %[b]; mov x2, %[c]; mov x3, %[d]; mov x4, %[e]; "
      "svc 0; mov %[result], x0"
      : [result] "=r"(result)
      : [number] "r"(number), [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d), [e] "r"(e)
      : "x0", "x1", "x2", "x3", "x4", "x8", "memory");
  return result;
#else
  const long result = ::syscall(number, a, b, c, d, e);
  return result < 0 ? -errno : result;
#endif
}

[[gnu::section("dlock_resident")]] long at(const void* p) { return reinterpret_cast<long>(p); }

// `ms` < 0: for ever. The compiler must not know it: constants that it makes of it would lie on
// another page.
[[gnu::section("dlock_resident")]] long wait(pollfd* p, long count, long ms) {
  asm volatile("" : "+r"(ms));
  const timespec t{ms / 1000, ms % 1000 * 1'000'000};
  return call(SYS_ppoll, at(p), count, ms < 0 ? 0 : at(&t), 0, 0);
}

// The first thread may reap a child at any moment, and the kernel use its pid again: so the child
// is pinned first, then asked whether it is ours. Without a descriptor it is killed all the same.
[[gnu::section("dlock_resident")]] void kill_child(long pid) {
  const long pin = call(SYS_pidfd_open, pid, 0, 0, 0, 0);
  if (pin < 0) {
    if (pin != -ESRCH) call(SYS_kill, pid, SIGKILL, 0, 0, 0);
    return;
  }
  if (call(SYS_waitid, P_PIDFD, pin, 0, WEXITED | WNOHANG | WNOWAIT, 0) == 0)
    call(SYS_pidfd_send_signal, pin, SIGKILL, 0, 0, 0);
  call(SYS_close, pin, 0, 0, 0, 0);
}

[[gnu::section("dlock_resident")]] void kill_children(int list) {
  char buffer[1024];
  long pid = 0, from = 0;
  for (long n; (n = call(SYS_pread64, list, at(buffer), sizeof buffer, from, 0)) > 0; from += n) {
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
  if (watched.kill >= 0) call(SYS_write, watched.kill, at(&one), 1, 0, 0);
  kill_children(watched.children);
}

[[gnu::section("dlock_resident")]] long longer(long ms) {
  return ms * 2 < longest_ms ? ms * 2 : longest_ms;
}

[[gnu::section("dlock_resident")]] void* stand_by(void*) {
  __atomic_store_n(&watched.stands_by, 1, __ATOMIC_RELEASE);
  call(SYS_futex, at(&watched.stands_by), FUTEX_WAKE_PRIVATE, 1, 0, 0);
  do {
    wait(watched.both, 2, -1);
    wait(nullptr, 0, late_ms);
  } while (wait(watched.both, 2, 0) <= 0);
  call(SYS_close, watched.spare, 0, 0, 0, 0);
  for (long pause_ms = 1;; pause_ms = longer(pause_ms)) {
    kill_tree();
    wait(nullptr, 0, pause_ms);
  }
}

// The disk fails instead of hanging: what the guard's first thread was about to run is not there,
// and SIGBUS would end the guard with the tree alive. That thread kills and reaps here instead.
[[gnu::section("dlock_resident")]] void on_bus_error(int, siginfo_t* info, void*) {
  if (info->si_code <= 0) return;  // sent by a process
  if (call(SYS_getpid, 0, 0, 0, 0, 0) == watched.guard) {
    for (long pause_ms = 1;; pause_ms = longer(pause_ms)) {
      kill_tree();
      long reaped = 1;
      while (reaped > 0) reaped = call(SYS_wait4, -1, 0, WNOHANG, 0, 0);
      if (reaped == -ECHILD) break;
      wait(nullptr, 0, pause_ms);
    }
  }
  call(SYS_exit_group, 125, 0, 0, 0, 0);
}

// Of these only the upper end is ever touched: libc's record of the thread, and a few calls.
alignas(65536) std::byte stack[65536];
constexpr std::size_t used_of_stack = 12288;

void keep(const void* begin, const void* end) noexcept {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const auto from = reinterpret_cast<std::uintptr_t>(begin) / page * page;
  const auto to = reinterpret_cast<std::uintptr_t>(end);
  for (auto p = from; p < to; p += page) (void)*reinterpret_cast<const volatile char*>(p);
  ::mlock(reinterpret_cast<const void*>(from), to - from);
}

int duplicate(int fd) { return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0); }

}  // namespace

Backstop::Backstop(int channel, int kill)
    : channel_(duplicate(channel)), kill_(duplicate(kill)), spare_(duplicate(channel)) {
  ::sigaction(SIGBUS, nullptr, &on_bus_);
}

bool Backstop::start() {
  if (!children_ || timer_.fd() < 0 || !channel_ || !spare_) return false;
  // no event of the channel is asked for: that dlock has closed it is always told
  watched = {{{channel_.get(), 0, 0}, {timer_.fd(), POLLIN, 0}},
             children_.fd(),
             kill_.get(),
             spare_.get(),
             ::getpid(),
             0};
  keep(&watched, &watched + 1);
  keep(resident_begin, resident_end);
  keep(std::end(stack) - used_of_stack, std::end(stack));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  if (::sigaction(SIGBUS, &action, &on_bus_) == 0) ::pthread_sigmask(SIG_UNBLOCK, &bus, nullptr);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstack(&attributes, stack, sizeof stack);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  if (::pthread_create(&thread, &attributes, stand_by, nullptr) != 0) return false;
  while (__atomic_load_n(&watched.stands_by, __ATOMIC_ACQUIRE) == 0)
    ::syscall(SYS_futex, &watched.stands_by, FUTEX_WAIT_PRIVATE, 0, nullptr);
  (void)spare_.release();
  return true;
}

void Backstop::restore() const noexcept { ::sigaction(SIGBUS, &on_bus_, nullptr); }

}  // namespace dlock::run
