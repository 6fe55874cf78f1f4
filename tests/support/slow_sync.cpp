// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: fsync(2) and fdatasync(2) take $SYNC_DELAY_US microseconds longer, for figures on
// slower disks.
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdlib>
#include <ctime>

namespace {

int slowly(long call, int fd) {
  static const long delay = [] {
    const char* const text = std::getenv("SYNC_DELAY_US");
    return text ? std::atol(text) : 0;
  }();
  const timespec t{delay / 1'000'000, delay % 1'000'000 * 1000};
  ::nanosleep(&t, nullptr);
  return static_cast<int>(::syscall(call, fd));
}

}  // namespace

extern "C" int fsync(int fd) { return slowly(SYS_fsync, fd); }
extern "C" int fdatasync(int fd) { return slowly(SYS_fdatasync, fd); }
