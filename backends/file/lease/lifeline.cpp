// SPDX-License-Identifier: Apache-2.0
#include "file/lease/lifeline.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <cerrno>
#include "core/number.hpp"
#include "core/text.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {
namespace {

constexpr int safe_flags = O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;

std::string path_of(const LifelineDir& at, const std::string& name) {
  return fmt::format("{}/{}", at.path, name);
}

Result<struct stat> fifo_alone(int fd, const std::string& path) {
  struct stat st {};
  if (::fstat(fd, &st)) return fail_errno("open", path, errno);
  if (!S_ISFIFO(st.st_mode))
    return fail(Errc::denied, "{}: is not a FIFO of dlock's", printable(path));
  if (st.st_nlink > 1)
    return fail(Errc::denied, "{}: has {} names (hard links)", printable(path), st.st_nlink);
  return st;
}

// Refuses a FIFO that another user has put here: it must not be watched or written to.
Result<void> check(int fd, const Access& access, const std::string& path) {
  const auto st = fifo_alone(fd, path);
  return st ? access.admits(*st, path) : fail(st.error());
}

// Returns whether a FIFO in a shared directory still lacks the mode for the group. There are two
// reasons: another member made the FIFO and ended right afterwards, or the FIFO belongs to a state
// that was deleted. If no record has used the number of such a FIFO, the FIFO proves nothing.
bool without_rights(const LifelineDir& at, const std::string& name) {
  struct stat st {};
  return at.access.group && ::fstatat(at.dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISFIFO(st.st_mode) && (st.st_mode & 0777) != at.access.file_mode();
}

}  // namespace

std::string fifo_name(std::uint64_t ticket) { return std::to_string(ticket); }

std::optional<std::uint64_t> ticket_of(std::string_view name) noexcept {
  return name.starts_with('0') ? std::nullopt : parse_number<std::uint64_t>(name);
}

Result<std::optional<Lifeline>> Lifeline::make(const LifelineDir& at, std::uint64_t ticket) {
  const std::string name = fifo_name(ticket);
  const auto path = [&] { return path_of(at, name); };
  Fd fd;
  for (int tries = 0; !fd; ++tries) {
    if (::mkfifoat(at.dir, name.c_str(), at.access.file_mode()) == 0) {
      fd = Fd(::openat(at.dir, name.c_str(), O_RDWR | safe_flags));
      if (!fd && errno == EACCES)  // the umask denies the rights even to the owner
        if (const Fd held = hold_made(at.dir, name, S_IFIFO);
            held && set_mode(held.get(), at.access.file_mode()))
          fd = Fd(::openat(at.dir, name.c_str(), O_RDWR | safe_flags));
      // ENOENT: this state was deleted meanwhile, and a contender of the next state removed our
      // FIFO, which was not open yet.
      if (fd || (errno == ENOENT && tries < 3)) continue;
      break;
    }
    if (errno != EEXIST || tries == 3) return fail_errno("create", path(), errno);
    const auto found = probe(at, ticket);
    if (!found && !without_rights(at, name)) return fail(found.error());
    // Interleaving 5: the state was deleted, and this FIFO belongs to a contender of the next state
    // that has not opened it yet. So remove the FIFO only if the state was still in its place when
    // the FIFO was found dead. A process that finds no state afterwards still sees this name, and
    // gives its number to nobody.
    if ((found && found->life == Probe::Life::alive) || !state_is_at(at))
      return std::optional<Lifeline>{};
    if (::unlinkat(at.dir, name.c_str(), 0) && errno != ENOENT)
      return fail_errno("remove", path(), errno);
  }
  // In a shared directory another member may have replaced the FIFO meanwhile. So check the open
  // file, and set its mode by the descriptor. The mode may be set after the creation, because under
  // the lock of the state no process uses a FIFO that the state does not list.
  Result<void> good = fd ? Result<void>{} : fail_errno("create", path(), errno);
  if (good && at.access.group)
    if (const auto alone = fifo_alone(fd.get(), path()); !alone) good = fail(alone.error());
  if (good && at.access.group)
    good = give_rights(fd.get(), at.access, at.access.file_mode(), path());
  if (good) return std::optional{Lifeline(ticket, at.epoch, std::move(fd))};
  if (state_is_at(at)) ::unlinkat(at.dir, name.c_str(), 0);
  return fail(good.error());
}

// The FIFO may be dead now, and a process that watches it may have been woken. But that process
// decides only under the lock of the state, which we have. When we open the FIFO, exactly the
// record that it belongs to is alive again.
Result<std::optional<Lifeline>> Lifeline::rejoin(const LifelineDir& at, std::uint64_t ticket) {
  const std::string name = fifo_name(ticket);
  Fd fd(::openat(at.dir, name.c_str(), O_RDWR | safe_flags));
  if (!fd && errno == ENOENT) return std::optional<Lifeline>{};
  if (!fd) return fail_errno("open", path_of(at, name), errno);
  TRY_VOID(check(fd.get(), at.access, path_of(at, name)));
  return std::optional{Lifeline(ticket, at.epoch, std::move(fd))};
}

bool state_is_at(const LifelineDir& at) noexcept {
  struct stat there {};
  return at.inode != 0 && ::fstatat(at.dir, "state", &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         there.st_ino == at.inode && there.st_dev == at.device;
}

bool Lifeline::linked() const noexcept {
  struct stat st {};
  return fd_ && ::fstat(fd_.get(), &st) == 0 && st.st_nlink > 0;
}

bool Lifeline::is_at(const LifelineDir& at) noexcept {
  if (!fd_ || at.dir < 0) return false;
  if (epoch_ == at.epoch) return true;
  struct stat mine {
  }, there{};
  if (::fstat(fd_.get(), &mine) ||
      ::fstatat(at.dir, fifo_name(ticket_).c_str(), &there, AT_SYMLINK_NOFOLLOW))
    return false;
  if (mine.st_ino != there.st_ino || mine.st_dev != there.st_dev) return false;
  epoch_ = at.epoch;
  return true;
}

void Lifeline::drain() const noexcept {
  char sink[256];
  while (fd_ && ::read(fd_.get(), sink, sizeof sink) == static_cast<ssize_t>(sizeof sink)) {}
}

// Interleaving 3: the state is deleted before we get here, and the next state lists us as a holder,
// because our lifeline is alive. So we close the lifeline first, and remove its name only if the
// state is still in its place. A process that finds no state afterwards finds our FIFO dead. If the
// state is not in its place, the name stays: it shows waiters that this holder has ended. (Without
// the name they would wait until somebody forces a release.)
void Lifeline::drop(const LifelineDir& at) noexcept {
  const std::string name = is_at(at) ? fifo_name(ticket_) : std::string{};
  drop();
  if (!name.empty() && state_is_at(at)) ::unlinkat(at.dir, name.c_str(), 0);
}

void Lifeline::drop() noexcept {
  fd_.reset();
  ticket_ = 0;
}

Result<Probe> probe(const LifelineDir& at, std::uint64_t ticket) {
  const std::string name = fifo_name(ticket);
  Fd fd(::openat(at.dir, name.c_str(), O_WRONLY | safe_flags));
  if (!fd && errno == ENXIO) return Probe{Probe::Life::dead};
  if (!fd && errno == ENOENT) return Probe{Probe::Life::missing};
  if (!fd) return fail_errno("open", path_of(at, name), errno);
  TRY_VOID(check(fd.get(), at.access, path_of(at, name)));
  return Probe{Probe::Life::alive, std::move(fd)};
}

bool ended(int watched_fd) noexcept {
  pollfd p{watched_fd, 0, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

void wake(const std::vector<Fd>& mailboxes) noexcept {
  if (mailboxes.empty()) return;
  sigset_t pipe_only, before, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  bool broken = false;
  for (const Fd& door : mailboxes) broken |= ::write(door.get(), "!", 1) < 0 && errno == EPIPE;
  const timespec now{};
  // our own write has caused this SIGPIPE, so remove it
  if (broken && !was_pending) ::sigtimedwait(&pipe_only, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace dlock::file
