// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: moves the wall clock of a program by what the file $CLOCK_SHIFT_FILE says (a signed 64-bit number of nanoseconds, mapped, so it
// can be changed while the program runs). Monotonic clocks stay as they are.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

volatile const std::int64_t* shift = nullptr;
bool looked = false;

std::int64_t offset() {
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
  return shift ? *shift : 0;
}

int real_clock(clockid_t clock, timespec* t) { return static_cast<int>(::syscall(SYS_clock_gettime, clock, t)); }

timespec shifted() {
  timespec t{};
  real_clock(CLOCK_REALTIME, &t);
  const __int128 n = static_cast<__int128>(t.tv_sec) * 1'000'000'000 + t.tv_nsec + offset();
  return {static_cast<time_t>(n / 1'000'000'000), static_cast<long>(n % 1'000'000'000)};
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return real_clock(clock, t);
  *t = shifted();
  return 0;
}
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
