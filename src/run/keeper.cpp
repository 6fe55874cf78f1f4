// SPDX-License-Identifier: Apache-2.0
#include "run/keeper.hpp"
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <system_error>
#include "core/exit_status.hpp"
#include "store/several.hpp"
#include "util/wait.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

Keeper::Keeper(const Plan& plan, Output& output)
    : plan_(plan),
      output_(output),
      wake_supervisor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wake_keeper_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      attempt_(plan.request),
      wait_(wait_rules(plan)) {
  attempt_.wait = !plan.one_try();
  if (!wake_supervisor_ || !wake_keeper_) failed_ = {"eventfd", errno};
}

void Keeper::post(const KeeperAction& a) {
  if (const auto* order = std::get_if<action::Release>(&a); order && !started_) {
    over_ = true;  // from now on start() does nothing
    release(*order);
    return lease_.reset();
  }
  start();
  if (!started_) return fail_without_thread(a);
  {
    const std::lock_guard lock(mutex_);
    request_ = a;
  }
  ::eventfd_write(wake_keeper_.get(), 1);
}

std::optional<KeeperAction> Keeper::request() {
  eventfd_t n = 0;
  ::eventfd_read(wake_keeper_.get(), &n);
  const std::lock_guard lock(mutex_);
  return std::exchange(request_, std::nullopt);
}

bool Keeper::requested() {
  const std::lock_guard lock(mutex_);
  return request_.has_value();
}

void Keeper::note_end(const ProgramEnded& ended) {
  {
    const std::lock_guard lock(mutex_);
    program_end_ = ended.encode();
  }
  ::eventfd_write(wake_keeper_.get(), 1);
}

bool Keeper::is_to_leave() {
  const auto action = requested() ? request() : std::nullopt;
  return action && std::holds_alternative<action::LeaveQueue>(*action);
}

void Keeper::report(KeeperEvent e) {
  wait_.observe(e);
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(e));
  }
  ::eventfd_write(wake_supervisor_.get(), 1);
}

// Reports the last event. Nothing is held any more.
void Keeper::finish(KeeperEvent last) {
  over_ = true;
  report(std::move(last));
}

std::vector<KeeperEvent> Keeper::events() {
  eventfd_t n = 0;
  ::eventfd_read(wake_supervisor_.get(), &n);
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

void Keeper::nap(Duration d, int alarm_fd, int outage_fd) {
  pollfd p[] = {{wake_keeper_.get(), POLLIN, 0}, {alarm_fd, POLLIN, 0}, {outage_fd, POLLIN, 0}};
  if (!requested()) wait_until(p, later(Clock::now(), d));
}

// Returns a random time between half of `d` and `d`, so that many clients do not come back at the
// same moment.
Duration Keeper::jitter(Duration d) { return d / 2 + spread(d / 2); }

Duration Keeper::spread(Duration d) {
  return Duration(d.count() * (::rand_r(&seed_) % 1024) / 1024);
}

void Keeper::start() {
  if (started_ || over_) return;  // test started_ first: once it is true, the thread owns over_
  try {
    std::thread([this] { work(); }).detach();
    started_ = true;
  } catch (const std::system_error& e) {
    // There are too many processes, or too little memory. If dlock holds the lock already, the lock
    // lasts as long as a descriptor stays open, and needs no thread.
    if (lease_) return;
    const bool scarce = e.code() == std::errc::resource_unavailable_try_again;
    finish(
        event::WaitEnded{status_unavailable, false,
                         fmt::format("cannot start a thread{}: {}",
                                     scarce ? " (ulimit -u, ulimit -v)" : "", e.code().message())});
  }
}

// Answers a request if no thread could be started.
void Keeper::fail_without_thread(const KeeperAction& a) {
  constexpr const char* why = "no thread could be started";
  if (std::holds_alternative<action::Detach>(a)) return report(event::DetachDone{false, why});
  if (lease_) (void)backend_->release(*lease_);
  lease_.reset();
  if (std::holds_alternative<action::LeaveQueue>(a)) finish(event::WaitLeft{});
  else finish(event::WaitEnded{status_unavailable, false, why});
}

void Keeper::work() {
  try {
    if (!backend_) splay();
    if (!backend_ && !over_) open();
    while (!over_) {
      if (!lease_) acquire();
      if (!over_) hold();
      lease_.reset();
    }
  } catch (const std::exception& e) {
    const Error error = unexpected(e);
    report(event::WaitEnded{exit_status(error.code), false, error.message});
    return;  // the job may still live, so neither the session nor its lock may end here
  }
  if (plan_.traits.liveness != Liveness::session) return;
  waiter_.reset();
  // This closes the session early. Nothing depends on that: the process may end first.
  backend_.reset();
}

// The interrupt descriptor is readable from the start, so the try never blocks. If another process
// is in the middle of a change, the try fails, and later the thread waits for the end of that
// change.
bool Keeper::try_now() {
  ::eventfd_write(wake_keeper_.get(), 1);
  open();
  if (!over_) enqueue();
  if (over_) return false;
  auto answer = waiter_->poll(Duration{});
  read_health();
  eventfd_t n = 0;
  ::eventfd_read(wake_keeper_.get(), &n);
  if (!answer && plan_.one_try()) give_up_wait(answer.error());
  if (!answer) return false;
  if (const auto* busy = std::get_if<Busy>(&*answer)) end_busy(*busy);
  if (const auto* granted = std::get_if<Granted>(&*answer)) accept(*granted);
  return lease_.has_value();
}

void Keeper::splay() {
  if (plan_.splay <= 0us) return;
  std::uint64_t random = 0;
  for (const std::uint8_t b : Owner::random().bytes) random = random * 257 + b;
  const Deadline end =
      later(Clock::now(), Duration(static_cast<std::int64_t>(
                              random % static_cast<std::uint64_t>(plan_.splay.count() + 1))));
  while (until(end) > 0us) {
    nap(until(end));
    if (is_to_leave()) return finish(event::WaitLeft{});
  }
}

void Keeper::open() {
  for (const std::uint8_t b : plan_.request.owner.bytes) seed_ = seed_ * 257 + b;
  report(event::WaitBegan{Clock::now()});
  auto opened = plan_.open(plan_.timing.op_timeout, wake_keeper_.get());
  if (!opened) return fail_wait(opened.error());
  backend_ = std::move(*opened);
  std::vector<Key> keys{plan_.request.key};
  keys.insert(keys.end(), plan_.more_keys.begin(), plan_.more_keys.end());
  if (plan_.output.verbosity > 0)
    for (const Key& key : keys) output_.inform(backend_->replaced_name(key));
  if (plan_.handle) backend_ = borrowed(std::move(backend_), *plan_.handle);
  if (!plan_.inherited.empty()) backend_ = reentrant(std::move(backend_), plan_.inherited);
  if (!plan_.several()) return;
  backend_ = several(std::move(backend_), std::move(keys), renewals(plan_.timing));
}

void Keeper::read_health() {
  health_ = backend_->health();
  for (; warned_ < health_.warnings.size(); ++warned_) output_.warn(health_.warnings[warned_]);
}

}  // namespace dlock::run
