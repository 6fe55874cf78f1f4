// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <thread>
#include "file/flock/flock_backend.hpp"
#include "file/sys_error.hpp"
#include "store/key_view.hpp"
#include "util/thread.hpp"
#include "util/wait.hpp"

namespace dlock::file {
namespace {

constexpr int wake_signal = SIGURG;

void nothing(int) {}

void install_handler() {
  struct sigaction handler {};
  handler.sa_handler = nothing;  // without SA_RESTART
  ::sigaction(wake_signal, &handler, nullptr);
}

enum class Woken { locked, interrupted, in_time };

Woken sleep(int ended_fd, int interrupt_fd, Deadline until) {
  pollfd fds[] = {{ended_fd, POLLIN, 0}, {interrupt_fd, POLLIN, 0}};
  if (wait_until(fds, until) <= 0) return Woken::in_time;
  return fds[0].revents ? Woken::locked : Woken::interrupted;
}

}  // namespace

// Waits for flock(2) in a way that works with poll(2) and can be ended at any moment.
//
// flock(2) cannot be polled and has no time limit. If we only tried it again and again, each
// process that blocks in it would overtake us. So a thread of ours blocks in flock(2). SIGURG
// interrupts that thread: the handler does nothing and is installed without SA_RESTART, so flock
// returns EINTR. Only this thread has SIGURG unblocked. We use SIGURG because it is ignored by
// default, so a stray SIGURG does no harm, and because dlock never forwards it to a job. dlock does
// forward real-time signals, and a signal meant for the job would be lost here. A forked helper
// process that blocks on the same open file would also work, but other code would reap this child,
// and it would outlive a SIGKILL of its parent.
class FlockWait {
 public:
  // Begins to wait for `operation` (LOCK_EX or LOCK_SH) on `fd`, which must stay open as long as
  // this object exists.
  FlockWait(int fd, int operation);
  ~FlockWait() { stop(); }
  FlockWait(const FlockWait&) = delete;
  FlockWait& operator=(const FlockWait&) = delete;

  int ended_fd() const noexcept { return ended_.get(); }  // readable when the wait has ended
  // Ends the wait, within about a millisecond unless the kernel hangs. Returns 0 if the lock was
  // taken, otherwise an errno. EINTR: the wait was stopped.
  int stop();

 private:
  void wait(int fd, int operation);

  Fd ended_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> outcome_ = 0;
  std::thread thread_;
};

FlockWait::FlockWait(int fd, int operation) : ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!ended_) throw std::system_error(errno, std::generic_category(), "eventfd");
  install_handler();
  thread_ = thread_without_signals([this, fd, operation] { wait(fd, operation); });
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
  // Repeat the signal, because it is lost if it comes between the check of stopping_ and the system
  // call.
  for (pollfd ended{ended_.get(), POLLIN, 0}; ::poll(&ended, 1, 0) <= 0;) {
    ::pthread_kill(thread_.native_handle(), wake_signal);
    if (::poll(&ended, 1, 1) > 0) break;
  }
  thread_.join();
  return outcome_;
}

class FlockWaiter final : public Waiter {
 public:
  FlockWaiter(FlockBackend& backend, std::string name, const Request& request)
      : backend_(backend), name_(std::move(name)), request_(request) {}

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<std::optional<Progress>> enter();  // nullopt: the file was deleted or replaced; try again
  Result<Progress> granted();
  std::optional<HolderView> holder();

  FlockBackend& backend_;
  const std::string name_;
  const Request request_;
  FlockFile file_;
  std::optional<FlockWait> wait_;  // must be destroyed before file_, which its thread uses
};

Result<std::unique_ptr<Waiter>> FlockBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits(), r));
  TRY(name, name_of(r.key));
  return std::make_unique<FlockWaiter>(*this, std::move(name), r);
}

std::optional<HolderView> FlockWaiter::holder() {
  const auto view = backend_.inspect(request_.key);
  if (!view || !*view || (*view)->holders.empty()) return std::nullopt;
  return (*view)->holders.front();
}

Result<Progress> FlockWaiter::granted() {
  const auto* mine = backend_.held(request_.key, request_.owner);
  const LockState::Holder& h = mine->entry.holder;
  return Granted{{request_.key, request_.owner, h.mode, h.token, 0, no_deadline, true},
                 mine->file.fd.get(),
                 mine->entry.mailbox.fd()};
}

// Call it while file_ is locked. It writes the token before it reports the grant.
Result<std::optional<Progress>> FlockWaiter::enter() {
  const auto here = in_place(backend_.where_, name_, file_);
  if (!here || !*here) {
    file_ = FlockFile{};
    if (!here) return fail(here.error());
    return std::nullopt;
  }
  ++backend_.counters_.requests;
  auto entry = backend_.enter(name_, request_, file_.fd.get());
  if (!entry) {
    ::flock(file_.fd.get(), LOCK_UN);
    file_ = FlockFile{};
    return fail(entry.error());
  }
  backend_.held_.insert_or_assign({request_.key.text(), request_.owner},
                                  FlockBackend::HeldFile{std::move(file_), std::move(*entry)});
  file_ = FlockFile{};
  TRY(progress, granted());
  return std::move(progress);
}

Result<Progress> FlockWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  const int operation = request_.mode == Mode::exclusive ? LOCK_EX : LOCK_SH;
  if (backend_.held(request_.key, request_.owner)) return granted();
  for (;;) {
    const Deadline asked = Clock::now();
    bool locked = false;
    if (!wait_) {
      TRY(file, open_flock_file(backend_.where_, name_, true));
      file_ = std::move(file);
      locked = ::flock(file_.fd.get(), operation | LOCK_NB) == 0;
      if (!locked && errno != EWOULDBLOCK && errno != EINTR)
        return fail_errno("lock", name_, errno);
      if (!locked && !request_.wait) return Busy{holder(), {}, asked};
      if (!locked) wait_.emplace(file_.fd.get(), operation);
    }
    if (!locked) {
      const Woken woken = sleep(wait_->ended_fd(), backend_.settings_.interrupt_fd, end);
      if (woken != Woken::locked) {
        const Deadline looked = Clock::now();
        return Waiting{0, holder(), {}, looked};
      }
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
  wait_.reset();  // if the lock was taken meanwhile, it is released below
  if (file_.fd) ::flock(file_.fd.get(), LOCK_UN);
  file_ = FlockFile{};
  if (!backend_.held(request_.key, request_.owner)) return {};
  const auto done = backend_.release({request_.key, request_.owner}, std::nullopt);
  return done ? Result<void>{} : fail(done.error());
}

}  // namespace dlock::file
