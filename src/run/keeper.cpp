// SPDX-License-Identifier: Apache-2.0
#include "run/keeper.hpp"
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <cstdlib>
#include <system_error>
#include "core/exit_status.hpp"
#include "run/keeper_times.hpp"
#include "util/wait.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

Keeper::Keeper(const Plan& plan, Events& events)
    : plan_(plan),
      events_(events),
      several_(!plan.more_keys.empty()),
      wake_supervisor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wake_keeper_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      asking_(plan.request) {
  if (!wake_supervisor_ || !wake_keeper_) failed_ = {"eventfd", errno};
}

void Keeper::ask(Request r) {
  start();
  if (!started_) return cannot(r);
  {
    const std::lock_guard lock(mutex_);
    request_ = r;
  }
  ::eventfd_write(wake_keeper_.get(), 1);
}

Keeper::Request Keeper::request() {
  eventfd_t n = 0;
  ::eventfd_read(wake_keeper_.get(), &n);
  const std::lock_guard lock(mutex_);
  return std::exchange(request_, {});
}

bool Keeper::requested() {
  const std::lock_guard lock(mutex_);
  return request_.what != Request::none;
}

void Keeper::report(Report r) {
  {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(r));
  }
  ::eventfd_write(wake_supervisor_.get(), 1);
}

std::vector<Keeper::Report> Keeper::reports() {
  eventfd_t n = 0;
  ::eventfd_read(wake_supervisor_.get(), &n);
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

void Keeper::nap(Duration d, int alarm_fd, int outage_fd) {
  pollfd p[] = {{wake_keeper_.get(), POLLIN, 0}, {alarm_fd, POLLIN, 0}, {outage_fd, POLLIN, 0}};
  if (!requested()) wait_until(p, later(Clock::now(), d));
}

// between a half and the whole: many clients must not come back at once
Duration Keeper::jitter(Duration d) {
  return d / 2 + Duration(d.count() / 2 * (::rand_r(&seed_) % 1024) / 1024);
}

Duration Keeper::spread(Duration d) {
  return Duration(d.count() * (::rand_r(&seed_) % 1024) / 1024);
}

void Keeper::start() {
  if (started_ || over_) return;  // in this order: over_ is the thread's once there is one
  try {
    std::thread([this] { work(); }).detach();
    started_ = true;
  } catch (
      // too many processes or too little memory; the lock of a descriptor needs no thread to last
      const std::system_error& e) {
    if (lease_) return;
    over_ = true;
    const bool scarce = e.code() == std::errc::resource_unavailable_try_again;
    report(Ended{status_unavailable,
                 fmt::format("cannot start a thread{}: {}", scarce ? " (ulimit -u, ulimit -v)" : "",
                             e.code().message())});
  }
}

// The report if no thread could be started.
void Keeper::cannot(Request r) {
  constexpr const char* why = "no thread could be started";
  if (r.what == Request::detach) return report(Detached{false, why});
  if (lease_) (void)backend_->release(*lease_);
  lease_.reset();
  over_ = true;
  if (r.what == Request::leave) report(Left{});
  else report(Ended{status_unavailable, why});
}

void Keeper::work() {
  try {
    wait_and_hold();
  } catch (const std::exception& e) {
    report(Ended{status_bug, fmt::format("internal error: {}", e.what())});
    return;  // a held lock may still have a living job: its session must not be ended here
  }
  if (plan_.traits.liveness != Liveness::session) return;
  place_.reset();
  // tells the store that the session is over, unless the process ends first: nothing depends on it
  backend_.reset();
}

// Interrupted from the start, so it never blocks: if another process is in the middle of a change,
// the thread will wait for it.
bool Keeper::try_now() {
  ::eventfd_write(wake_keeper_.get(), 1);
  if (!open() || !enqueue()) return false;
  auto answer = place_->poll(Duration{});
  eventfd_t n = 0;
  ::eventfd_read(wake_keeper_.get(), &n);
  reached_ = answer.has_value();
  if (!answer && !plan_.request.wait) over_ = true, gave_up(answer.error());
  if (!answer) return false;
  if (const auto* busy = std::get_if<Busy>(&*answer)) over_ = true, is_busy(*busy);
  const auto* granted = std::get_if<dlock::Granted>(&*answer);
  return granted && take(*granted);
}

// --splay. False: the user interrupted it.
bool Keeper::splay() {
  if (plan_.splay <= 0us) return true;
  std::uint64_t random = 0;
  for (const std::uint8_t b : Owner::random().bytes) random = random * 257 + b;
  const Deadline end =
      later(Clock::now(), Duration(static_cast<std::int64_t>(
                              random % static_cast<std::uint64_t>(plan_.splay.count() + 1))));
  while (until(end) > 0us) {
    nap(until(end));
    if (!requested()) continue;
    if (request().what == Request::leave) return over_ = true, report(Left{}), false;
  }
  return true;
}

void Keeper::wait_and_hold() {
  if (!over_ && !backend_ && !splay()) return;
  if (!over_ && !backend_) open();
  while (!over_) {
    if (!lease_ && acquire() == Next::over) return;
    if (hold() == Next::over) return;
    lease_.reset();
  }
}

bool Keeper::open() {
  for (const std::uint8_t b : plan_.request.owner.bytes) seed_ = seed_ * 257 + b;
  const Deadline now = Clock::now();
  report(Began{now});
  if (plan_.wait && plan_.request.wait) wait_until_ = later(now, *plan_.wait);
  connect_until_ = later(now, plan_.connect_timeout);
  Settings settings;
  settings.op_timeout = plan_.timing.op_timeout;
  settings.connect_timeout = plan_.connect_timeout;
  settings.interrupt_fd = wake_keeper_.get();
  auto opened = plan_.open(settings);
  if (opened) {
    backend_ = std::move(*opened);
    if (several_) {
      std::vector<Key> keys{plan_.request.key};
      keys.insert(keys.end(), plan_.more_keys.begin(), plan_.more_keys.end());
      backend_ = several(std::move(backend_), std::move(keys), others_);
    }
  } else {
    over_ = true;
    report(Ended{exit_status(opened.error().code), opened.error().message});
  }
  return !over_;
}

void Keeper::look_at_health() {
  health_ = backend_->health();
  for (; warned_ < health_.warnings.size(); ++warned_) events_.words(health_.warnings[warned_]);
}

WaitEnd::Rules wait_rules(const Plan& plan) {
  const auto keys = static_cast<Duration::rep>(plan.more_keys.size()) + 1;
  return {plan.wait, !plan.request.wait, plan.connect_timeout + plan.timing.op_timeout * keys};
}

}  // namespace dlock::run
