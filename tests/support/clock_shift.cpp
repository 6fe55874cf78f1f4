// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: shifts the clocks of a program by two signed 64-bit numbers of nanoseconds in the
// file $CLOCK_SHIFT_FILE, which is mapped, so they can change while the program runs. The first
// shifts the wall clock. The second, which may be absent, shifts CLOCK_BOOTTIME as a suspend of the
// machine does: the time of poll(2) and the other clocks stands still meanwhile. Alarms of
// timerfd(2) set before the shift fire as if there had been none; a real kernel fires them at the
// end of the suspend.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

volatile const std::int64_t* shift = nullptr;
bool looked = false;

std::int64_t offset(int which) {
  if (!looked) {
    looked = true;
    const char* path = std::getenv("CLOCK_SHIFT_FILE");
    const int fd = path ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
      void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
      ::close(fd);
      if (page != MAP_FAILED) shift = static_cast<const std::int64_t*>(page);
    }
  }
  return shift ? shift[which] : 0;
}

int real_clock(clockid_t clock, timespec* t) {
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, t));
}

timespec moved(const timespec& t, std::int64_t by) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t ns = t.tv_nsec + by % second;  // of either sign
  const std::int64_t carry = ns < 0 ? -1 : ns >= second ? 1 : 0;
  return {static_cast<time_t>(t.tv_sec + by / second + carry),
          static_cast<long>(ns - carry * second)};
}

timespec shifted() {
  timespec t{};
  real_clock(CLOCK_REALTIME, &t);
  return moved(t, offset(0));
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  const int done = real_clock(clock, t);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) *t = moved(*t, offset(0));
  if (clock == CLOCK_BOOTTIME) *t = moved(*t, offset(1));
  return done;
}
// The clock of the descriptor is unknown here; dlock's absolute alarms are all on CLOCK_BOOTTIME.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* asked,
                               itimerspec* old) noexcept {
  itimerspec real = *asked;
  const bool armed = real.it_value.tv_sec != 0 || real.it_value.tv_nsec != 0;
  if ((flags & TFD_TIMER_ABSTIME) && armed && offset(1) != 0) {
    real.it_value = moved(real.it_value, -offset(1));
    if (real.it_value.tv_sec < 0) real.it_value = {0, 1};
  }
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, &real, old));
}
#ifdef clock_shift_EXPORTS  // not where it is linked in: sanitizers have their own
// Of a server whose threads sleep until a time of the wall clock, as those of MariaDB do.
extern "C" int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex,
                                      const timespec* until) {
  static const auto real = reinterpret_cast<decltype(&pthread_cond_timedwait)>(
      ::dlsym(RTLD_NEXT, "pthread_cond_timedwait"));
  const timespec t = moved(*until, -offset(0));
  return real(cond, mutex, &t);
}
#endif
extern "C" int gettimeofday(timeval* tv, void*) noexcept {
  const timespec t = shifted();
  *tv = {t.tv_sec, t.tv_nsec / 1000};
  return 0;
}
extern "C" time_t time(time_t* t) noexcept {
  const time_t now = shifted().tv_sec;
  if (t) *t = now;
  return now;
}
