// SPDX-License-Identifier: Apache-2.0
#include "file/flock/flock_waiter.hpp"
#include <sys/file.h>
#include <cerrno>
#include "core/key_view.hpp"
#include "file/sys_error.hpp"
#include "util/wait.hpp"

namespace dlock::file {
namespace {

enum class Woken { locked, interrupted, in_time };

Woken sleep(int ended_fd, int interrupt_fd, Deadline until) {
  pollfd fds[] = {{ended_fd, POLLIN, 0}, {interrupt_fd, POLLIN, 0}};
  if (wait_until(fds, until) <= 0) return Woken::in_time;
  return fds[0].revents ? Woken::locked : Woken::interrupted;
}

}  // namespace

std::optional<HolderView> FlockWaiter::holder() {
  const auto seen = backend_.inspect(request_.key);
  if (!seen || !*seen || (*seen)->holders.empty()) return std::nullopt;
  return (*seen)->holders.front();
}

Result<Progress> FlockWaiter::granted() {
  const auto* mine = backend_.held(request_.key, request_.owner);
  const LockState::Holder& h = mine->entry.holder;
  return Progress{Granted{{request_.key, request_.owner, h.mode, h.token, 0, no_deadline, true},
                          mine->file.fd.get(),
                          mine->entry.mailbox.fd()}};
}

// We have the lock of file_. The token is written before the grant is reported.
Result<std::optional<Progress>> FlockWaiter::enter() {
  const auto here = in_place(backend_.where_, name_, file_);
  if (!here || !*here) {
    file_ = FlockFile{};
    if (!here) return fail(here.error());
    return std::optional<Progress>{};
  }
  ++backend_.counters_.requests;
  auto entry = backend_.record(name_).enter(request_, file_.fd.get());
  if (!entry) {
    ::flock(file_.fd.get(), LOCK_UN);
    file_ = FlockFile{};
    return fail(entry.error());
  }
  backend_.held_.insert_or_assign({request_.key.text(), request_.owner},
                                  FlockBackend::HeldFile{std::move(file_), std::move(*entry)});
  file_ = FlockFile{};
  TRY(progress, granted());
  return std::optional{std::move(progress)};
}

Result<Progress> FlockWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  const int operation = request_.mode == Mode::exclusive ? LOCK_EX : LOCK_SH;
  if (backend_.held(request_.key, request_.owner)) return granted();
  for (;;) {
    bool locked = false;
    if (!wait_) {
      TRY(file, open_flock_file(backend_.where_, name_, true));
      file_ = std::move(file);
      locked = ::flock(file_.fd.get(), operation | LOCK_NB) == 0;
      if (!locked && errno != EWOULDBLOCK && errno != EINTR)
        return fail_errno("lock", name_, errno);
      if (!locked && !request_.wait) return Progress{Busy{holder()}};
      if (!locked) wait_.emplace(file_.fd.get(), operation);
    }
    if (!locked) {
      const Woken woken = sleep(wait_->ended_fd(), backend_.settings_.interrupt_fd, end);
      if (woken != Woken::locked) return Progress{Waiting{0, holder()}};
      ++backend_.counters_.wakeups;
      const int why = wait_->stop();
      wait_.reset();
      if (why != 0) return fail_errno("lock", name_, why);
    }
    TRY(entered, enter());
    if (entered) return std::move(*entered);
  }
}

Result<void> FlockWaiter::cancel() {
  wait_.reset();  // if it was granted meanwhile, closing the file releases it
  if (file_.fd) ::flock(file_.fd.get(), LOCK_UN);
  file_ = FlockFile{};
  if (!backend_.held(request_.key, request_.owner)) return {};
  const auto done = backend_.release({request_.key, request_.owner}, std::nullopt);
  return done ? Result<void>{} : fail(done.error());
}

}  // namespace dlock::file
