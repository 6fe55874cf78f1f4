// SPDX-License-Identifier: Apache-2.0
// The lock of a state file.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <algorithm>
#include <cerrno>
#include "core/text.hpp"
#include "file/lease/state_file.hpp"
#include "file/lock_table.hpp"
#include "file/sys_error.hpp"
#include "util/wait.hpp"

namespace dlock::file {
namespace {

// Takes the turn or gives it up. The turn is an OFD lock on one byte behind both slots, independent
// of flock(2). It ends when the open file is closed, however the process ends.
bool set_turn(int fd, short type) noexcept {
  struct flock turn {};
  turn.l_type = type;
  turn.l_whence = SEEK_SET;
  turn.l_start = 2 * slot_size;
  turn.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &turn) == 0;
}

// Chooses the naps of a process that waits for the lock of one file.
class Naps {
 public:
  explicit Naps(Duration patience) : patience_(patience) {}

  Clock::duration next(int fd, Deadline now) {
    using namespace std::chrono_literals;
    const Clock::duration waited = now - begun_;
    if (turn_of_ != fd && waited > 10ms && set_turn(fd, F_WRLCK)) {
      turn_of_ = fd;
      turn_since_ = now;
    }
    const Clock::duration most = turn_of_ >= 0 ? 1ms : patience_ / 16;
    const Clock::duration about =
        std::clamp<Clock::duration>((turn_of_ >= 0 ? now - turn_since_ : waited) / 4, 20us, most);
    return about / 2 + about * (now.time_since_epoch().count() / 64 % 1024) / 1024;
  }
  void over(int fd) noexcept {
    if (turn_of_ >= 0 && turn_of_ == fd) set_turn(fd, F_UNLCK);
    turn_of_ = -1;
  }

 private:
  const Duration patience_;
  const Deadline begun_ = Clock::now();
  Deadline turn_since_{};
  int turn_of_ = -1;
};

}  // namespace

// Tries to lock, with naps in between, because flock(2) has no time limit, and a process that is
// stopped inside the critical section must not stop us. The critical section takes some 20 us, so
// few processes ever nap.
//
// If hundreds of processes try every millisecond, the owner of the lock gets no processor when it
// could continue, and then no process makes progress. So naps grow with the wait, because the
// length of the wait shows how many processes there are. Whatever their number, together they try
// about four times for each time that the lock becomes free. But then a new contender, whose naps
// are short, would always be first. So one contender at a time has the turn: it tries often, and
// takes the lock the next time that the lock is free. Which contender gets the turn is random,
// because all naps are partly random. No nap is so long that only few tries would be left.
//
// Interleaving 2: the process with the turn is stopped. The others lock when they wake up and find
// the lock free, as if there were no turn.
Result<StateFile::Locking> StateFile::lock(Make make, Duration patience, int interrupt_fd) {
  Naps naps(patience);
  for (const Deadline end = later(Clock::now(), patience);;) {
    if (!file_) {
      TRY(opened, open(make));
      if (!opened) return Locking::absent;
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
      locked_ = true;
      naps.over(file_.get());
      const auto here = in_place();
      if (here && *here) return Locking::locked;
      close();
      if (!here) return fail(here.error());
    } else if (errno == EINTR) {
      continue;
    } else if (errno != EWOULDBLOCK) {
      return fail_errno("lock", path_, errno);
    }
    const Deadline now = Clock::now();
    if (now >= end) break;
    pollfd interrupt[] = {{interrupt_fd, POLLIN, 0}};
    const Clock::duration nap = file_ ? naps.next(file_.get(), now) : Clock::duration{20'000};
    if (wait_until(interrupt, std::min(end, now + nap)) > 0) {
      naps.over(file_.get());
      return Locking::interrupted;
    }
  }
  naps.over(file_.get());
  return fail(Errc::unavailable,
              locked_by_another(fmt::format(" for {} ms", patience.count() / 1000), true));
}

std::string StateFile::locked_by_another(std::string_view since, bool name) const {
  const auto pid = file_ && name ? flock_holder(device_, inode_) : std::nullopt;
  return fmt::format(
      "lock directory {}: its state has been locked{} by {}, which is frozen or stopped in the "
      "middle of a change; nothing can change there until it goes on or ends",
      printable(dir_path_), since, pid ? fmt::format("process {}", *pid) : "another process");
}

// Unlock explicitly: a forked child may share the open file, and a close alone would not unlock it.
void StateFile::unlock() noexcept {
  if (locked_) ::flock(file_.get(), LOCK_UN);
  locked_ = false;
}

}  // namespace dlock::file
