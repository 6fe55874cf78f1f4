// SPDX-License-Identifier: Apache-2.0
// A process that waits for the short lock of a state, which another holds all the time. Its clock
// is the test's: a nap takes as long as was asked, at once.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <ctime>
#include "core/clock.hpp"
#include "file/lease/state_file.hpp"
#include "pure/random.hpp"
#include "support/temp_dir.hpp"
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::file;
using namespace std::chrono_literals;

namespace {

struct Waited {
  Clock::time_point now{};
  int tries = 0, refused_naps = 0;
  Clock::time_point last_try{};
  Clock::duration longest_pause{};
};
Waited* waiting = nullptr;  // while it is there, the calls below are its

timespec of(Clock::duration d) { return {d / 1s, static_cast<long>((d % 1s).count())}; }

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

int __real_clock_gettime(clockid_t, timespec*);
int __wrap_clock_gettime(clockid_t which, timespec* to) {
  if (!waiting || which != CLOCK_BOOTTIME) return __real_clock_gettime(which, to);
  *to = of(waiting->now.time_since_epoch());
  return 0;
}

int __real_ppoll(pollfd*, nfds_t, const timespec*, const sigset_t*);
int __wrap_ppoll(pollfd* fds, nfds_t size, const timespec* timeout, const sigset_t* mask) {
  if (!waiting) return __real_ppoll(fds, size, timeout, mask);
  waiting->now +=
      std::chrono::seconds{timeout->tv_sec} + std::chrono::nanoseconds{timeout->tv_nsec};
  if (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1'000'000'000) return 0;
  ++waiting->refused_naps;
  errno = EINVAL;
  return -1;
}

int __real_flock(int, int) noexcept;
int __wrap_flock(int fd, int how) noexcept {
  if (waiting && how == (LOCK_EX | LOCK_NB)) {
    if (waiting->tries++ > 0)
      waiting->longest_pause = std::max(waiting->longest_pause, waiting->now - waiting->last_try);
    waiting->last_try = waiting->now;
  }
  return __real_flock(fd, how);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

// Another process in the middle of a change, and a third that has the turn.
class Others {
 public:
  explicit Others(const std::string& path)
      : owner_(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
        first_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    struct flock all {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    REQUIRE(__real_flock(owner_.get(), LOCK_EX | LOCK_NB) == 0);
    REQUIRE(::fcntl(first_.get(), F_OFD_SETLK, &all) == 0);
  }

 private:
  const Fd owner_, first_;
};

// For all of `patience`.
Waited wait_in_vain(StateFile& file, Duration patience, Clock::duration begin) {
  Waited w{.now = Clock::time_point{begin}};
  const auto end = w.now + patience;
  waiting = &w;
  const auto locking = file.lock(Make::state, patience, -1);
  waiting = nullptr;
  REQUIRE_FALSE(locking);
  CHECK(locking.error().code == Errc::unavailable);
  CHECK(w.now == end);
  CHECK(w.last_try == end);
  CHECK(w.refused_naps == 0);
  return w;
}

}  // namespace

// Whoever tries every few milliseconds takes the processors from the lock's owner, if there are
// thousands of them.
TEST_CASE("a wait for the lock of a state has few tries, however long, none far from the next") {
  const test::TempDir dir;
  const Directory directory(dir.path(), "", Directory::Make::all, true);
  StateFile file(directory, "k");
  REQUIRE(file.lock(Make::all, 5s, -1).value() == StateFile::Locking::locked);
  file.unlock();
  const Others others(file.path());
  const Duration patience = GENERATE(Duration{100ms}, Duration{5s}, Duration{30s}, Duration{10min});
  test::Random random(test::seed());  // for the naps, which are random by the clock
  for (int i = 0; i < 100; ++i) {
    const std::chrono::nanoseconds begin{random.below(1'000'000'000'000)};
    const Waited w = wait_in_vain(file, patience, begin);
    CHECK(w.tries < 120);
    CHECK(w.longest_pause < patience / 10);
  }
}
