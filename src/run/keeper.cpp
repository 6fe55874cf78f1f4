// SPDX-License-Identifier: Apache-2.0
#include "run/keeper.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <algorithm>
#include <cstdlib>
#include "core/duration.hpp"
#include "core/exit_status.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr Duration first_look = 500ms;  // after which people are told that we wait
constexpr Duration later_looks = 1s;
constexpr Duration quiet_look = 10min;
constexpr Duration first_retry = 100ms, last_retry = 2s;

Duration until(Deadline t) { return std::chrono::duration_cast<Duration>(t - Clock::now()); }

}  // namespace

Keeper::Keeper(const Plan& plan, Events& events)
    : plan_(plan),
      events_(events),
      wake_supervisor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wake_keeper_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Keeper::ask(Request r) {
  start();
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

void Keeper::nap(Duration d, int alarm_fd) {
  pollfd p[] = {{wake_keeper_.get(), POLLIN, 0}, {alarm_fd, POLLIN, 0}};
  const Deadline end = later(Clock::now(), d);
  while (!requested()) {
    const Duration left = until(end);
    if (left <= 0us) return;
    const timespec ts{left / 1s, (left % 1s) / 1us * 1000};
    if (::ppoll(p, 2, &ts, nullptr) > 0) return;
  }
}

Duration Keeper::jitter(Duration d) {  // between a half and the whole: many clients must not come back together
  return d / 2 + Duration(d.count() / 2 * (::rand_r(&seed_) % 1024) / 1024);
}

void Keeper::start() {
  if (over_ || std::exchange(started_, true)) return;
  std::thread([this] { work(); }).detach();
}

void Keeper::work() {
  try {
    wait_and_hold();
  } catch (const std::exception& e) {
    report(Ended{status_bug, fmt::format("internal error: {}", e.what())});
    return;  // what is held may still have a living job: its session is not ours to end
  }
  if (plan_.traits.liveness != Liveness::session) return;
  place_.reset();
  backend_.reset();  // tells the store that the session is over, unless the process ends first: nothing depends on it
}

bool Keeper::try_now() {
  if (!open() || !enqueue()) return false;
  const auto answer = place_->poll(Duration{});
  reached_ = answer.has_value();
  const auto* granted = answer ? std::get_if<dlock::Granted>(&*answer) : nullptr;
  return granted && take(*granted);
}

// --splay. False: the user left meanwhile.
bool Keeper::splay() {
  if (plan_.splay <= 0us) return true;
  std::uint64_t random = 0;
  for (const std::uint8_t b : Owner::random().bytes) random = random * 257 + b;
  const Deadline end =
      later(Clock::now(), Duration(static_cast<std::int64_t>(random % static_cast<std::uint64_t>(plan_.splay.count() + 1))));
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
  if (plan_.wait) wait_until_ = later(now, *plan_.wait);
  connect_until_ = later(now, plan_.connect_timeout);
  Settings settings;
  settings.op_timeout = plan_.timing.op_timeout;
  settings.connect_timeout = plan_.connect_timeout;
  settings.interrupt_fd = wake_keeper_.get();
  auto opened = plan_.open(settings);
  if (opened) {
    backend_ = std::move(*opened);
  } else {
    over_ = true;
    report(Ended{exit_status(opened.error().code), opened.error().message});
  }
  return !over_;
}

// ---- waiting -------------------------------------------------------------------------------------------------------------

bool Keeper::enqueue() {
  events_.trace_invoke("acquire");
  auto queued = backend_->enqueue(plan_.request);
  if (queued) {
    place_ = std::move(*queued);
  } else {
    over_ = true;
    report(Ended{exit_status(queued.error().code), queued.error().message});
  }
  return !over_;
}

// False: granted, but the guard could not be given what it must hold.
bool Keeper::take(const dlock::Granted& granted) {
  Fd hold(granted.hold_fd >= 0 ? ::fcntl(granted.hold_fd, F_DUPFD_CLOEXEC, 3) : -1);
  place_.reset();
  if (granted.hold_fd >= 0 && !hold) {
    (void)backend_->release(granted.lease);
    over_ = true;
    report(Ended{status_unavailable, "no file descriptor is left for the guard"});
    return false;
  }
  if (plan_.once_per && !note_start(granted.lease)) return over_ = true, false;
  lease_ = granted.lease;
  alarm_fd_ = granted.alarm_fd;
  events_.trace_granted(*lease_);
  report(Granted{*lease_, std::move(hold), granted.more});
  return true;
}

// --once-per, after the grant and before the start. False: nothing may start; the lock was given back and a report says why.
// A start whose record has an unknown fate is no start; the attempt to withdraw it may fail, and then this period has none.
bool Keeper::note_start(const Lease& lease) {
  const auto twice = [](auto ask) {
    auto answer = ask();
    return !answer && retryable(answer.error().code) ? ask() : answer;
  };
  const auto known = twice([&] { return backend_->starts(lease.key); });
  Error error = known ? Error{} : known.error();
  if (known && !plan_.once_per->due(*known)) {
    const Duration ahead = OncePer::ahead(*known);
    bool corrected = false;
    if (ahead > 0us) {
      const auto noted = twice([&] { return backend_->note_start(lease, known->now, plan_.once_per->keep()); });
      corrected = noted && *noted == Validity::valid;
    }
    (void)twice([&] { return backend_->release(lease); });
    events_.trace_result("acquire", "fail");
    const std::string line =
        ahead > 0us ? events_.started_ahead_line(ahead, corrected) : events_.started_line(Duration{known->now - *known->last});
    report(Ended{plan_.conflict_status, line, true});
    return false;
  }
  if (known) {
    noted_ = *known;
    const auto done = twice([&] { return backend_->note_start(lease, known->now, plan_.once_per->keep()); });
    if (done && *done == Validity::valid) return true;
    error = done ? Error{Errc::unavailable, "the lock ended before the start could be noted"} : done.error();
    withdraw_start(lease);
  }
  (void)twice([&] { return backend_->release(lease); });
  events_.trace_result("acquire", "info");
  report(Ended{exit_status(error.code), fmt::format("--once-per: {}; nothing was started", error.message)});
  return false;
}

void Keeper::withdraw_start(const Lease& lease) {
  if (noted_) (void)backend_->note_start(lease, noted_->last, plan_.once_per->keep());
  noted_.reset();
}

Keeper::Next Keeper::acquire() {
  if (!place_ && !enqueue()) return Next::over;
  const Duration look = plan_.say.quiet ? quiet_look : later_looks;
  Duration slice = std::min(look, first_look), retry = first_retry;
  std::optional<HolderView> holder;
  std::string why;
  Error last{};
  bool unreachable = false, tried = false;

  for (;;) {
    if (requested() && request().what == Request::leave) {
      if (const auto left = place_->cancel(); !left && retryable(left.error().code)) (void)place_->cancel();
      return report(Left{}), Next::over;
    }
    const Duration left = until(wait_until_);
    if (tried && plan_.request.wait && left <= 0us) {
      if (reached_) (void)place_->cancel();
      events_.trace_result("acquire", unreachable ? "info" : "fail");
      if (unreachable) return report(Ended{status_unavailable, last.message}), Next::over;
      return report(Ended{plan_.conflict_status, events_.busy_line(holder, why), true}), Next::over;
    }
    tried = true;
    auto answer = place_->poll(plan_.request.wait ? std::clamp<Duration>(left, 0us, slice) : Duration{});
    if (!answer) {
      last = std::move(answer.error());
      unreachable = true;
      const bool too_long = !reached_ && !plan_.wait && Clock::now() >= connect_until_;
      if (!retryable(last.code) || !plan_.request.wait || too_long) {
        // Nothing to undo where nothing was ever sent; else, best effort: what stays ends by its ttl.
        if (reached_ || last.code == Errc::timed_out || last.code == Errc::protocol) (void)place_->cancel();
        events_.trace_result("acquire", "info");
        return report(Ended{exit_status(last.code), last.message}), Next::over;
      }
      nap(std::min(jitter(retry), std::max<Duration>(until(wait_until_), 0us)));
      retry = std::min(retry * 2, last_retry);
      continue;
    }
    unreachable = false;
    reached_ = true;
    retry = first_retry;
    if (const auto* granted = std::get_if<dlock::Granted>(&*answer)) {
      if (requested() && request().what == Request::leave) {
        if (auto r = backend_->release(granted->lease); !r && retryable(r.error().code)) (void)backend_->release(granted->lease);
        return report(Left{}), Next::over;
      }
      return take(*granted) ? Next::again : Next::over;
    }
    if (auto* busy = std::get_if<Busy>(&*answer)) {
      events_.trace_result("acquire", "fail");
      return report(Ended{plan_.conflict_status, events_.busy_line(busy->holder, busy->why), true}), Next::over;
    }
    auto& waiting = std::get<Waiting>(*answer);
    holder = waiting.holder;
    why = waiting.why;
    report(std::move(waiting));
    slice = look;
  }
}

// ---- holding -------------------------------------------------------------------------------------------------------------

// False: lost. An error changes nothing but when we ask again: doing nothing is safe, the deadline stands.
bool Keeper::renew(Lease& lease, Deadline& next) {
  Result<Renewal> answer = fail(Errc::internal, "");
  events_.trace_invoke("renew");
  try {
    answer = backend_->renew(lease, plan_.timing.ttl);
  } catch (const std::exception& e) {
    answer = fail(Errc::protocol, e.what());  // a broken client library knows nothing: unknown
  }
  const Deadline now = Clock::now();
  if (!answer) {
    events_.trace_result("renew", "info");
    report(RenewFailed{answer.error().message});
    next = later(now, jitter(std::clamp<Duration>(plan_.timing.renew_every / 8, 50ms, 1s)));
    return true;
  }
  if (auto* kept = std::get_if<dlock::Kept>(&*answer)) {
    lease = kept->lease;
    next = later(now, plan_.timing.renew_every);
    events_.trace_result("renew", "ok", lease.deadline);
    report(Kept{lease.deadline, kept->revoked});
    return true;
  }
  events_.trace_result("renew", "fail");
  report(Gone{std::get<Lost>(*answer).why});
  return false;
}

void Keeper::release() {
  if (started_) return ask({Request::release, {}});
  give_back(*lease_, false);
}

Keeper::Next Keeper::hold() {
  Lease lease = *lease_;
  const int alarm_fd = alarm_fd_;
  // Counted from the sending of the acquisition, not from its answer, where the lease says when that was.
  Deadline next = lease.deadline == no_deadline ? later(Clock::now(), plan_.timing.renew_every)
                                                : lease.deadline - plan_.timing.proven + plan_.timing.renew_every;
  for (bool lost = false;;) {
    nap(lost ? quiet_look : until(next), lost ? -1 : alarm_fd);
    const Request asked = request();
    switch (asked.what) {
      case Request::release: give_back(lease, lost); return Next::over;
      case Request::leave:
      case Request::queue_again:
        if (!lost) withdraw_start(lease), (void)backend_->release(lease);
        if (asked.what == Request::queue_again) return Next::again;
        report(Left{});
        return Next::over;
      case Request::detach: {
        const auto answer = lost ? Result<Renewal>(Lost{"lost"}) : backend_->detach(lease, asked.span);
        const bool kept = answer && std::holds_alternative<dlock::Kept>(*answer);
        report(Detached{kept, kept ? "" : answer ? std::get<Lost>(*answer).why : answer.error().message});
        if (kept) return Next::over;
        break;
      }
      case Request::none: break;
    }
    pollfd alarm{alarm_fd, POLLIN, 0};
    if (!lost && (Clock::now() >= next || ::poll(&alarm, 1, 0) > 0)) lost = !renew(lease, next);
  }
}

void Keeper::give_back(const Lease& lease, bool lost) {
  if (lost) return report(Released{false, "it was lost"});
  const Deadline until_then = later(Clock::now(), plan_.timing.op_timeout);
  if (started_nothing_) withdraw_start(lease);
  events_.trace_invoke("release");
  bool asked = false;  // once an attempt had no answer: not held now, then as released as can be
  for (Duration retry = first_retry;; retry *= 2) {
    const auto answer = backend_->release(lease);
    if (answer) {
      const bool held = *answer == dlock::Released::yes || asked;
      events_.trace_result("release", held ? "ok" : "fail");
      return report(Released{held, held ? "" : "it was not held any more"});
    }
    if (!retryable(answer.error().code) || later(Clock::now(), retry) >= until_then) {
      events_.trace_result("release", "info");
      return report(Released{false, answer.error().message, true});
    }
    asked |= answer.error().code != Errc::unavailable;
    nap(jitter(retry));
  }
}

}  // namespace dlock::run
