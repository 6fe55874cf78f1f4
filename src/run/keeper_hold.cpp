// SPDX-License-Identifier: Apache-2.0
// The Keeper with a lock: renews, detaches, releases.
#include <poll.h>
#include <algorithm>
#include "run/keeper.hpp"
#include "run/keeper_times.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

// False: lost. An error changes only the time of the next try: doing nothing is safe, the deadline
// stays.
bool Keeper::renew(Lease& lease, Deadline& next) {
  Result<Renewal> answer = fail(Errc::internal, "");
  events_.trace_invoke("renew");
  try {
    answer = backend_->renew(lease, plan_.request.ttl);
  } catch (const std::exception& e) {
    // an exception of a client library: the outcome is unknown
    answer = fail(Errc::protocol, e.what());
  }
  const Deadline now = Clock::now();
  look_at_health();
  if (!answer) {
    events_.trace_result("renew", "info");
    report(RenewFailed{answer.error().message});
    next = later(now, jitter(std::clamp<Duration>(plan_.timing.renew_every / 8, 50ms, 1s)));
    return true;
  }
  if (auto* kept = std::get_if<dlock::Kept>(&*answer)) {
    lease = kept->lease;
    next = next_renewal(plan_.timing, lease.deadline, now);
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
  over_ = true;  // start() comes too late now
  give_back(*lease_, false);
  lease_.reset();
}

Keeper::Next Keeper::hold() {
  Lease lease = *lease_;
  const int alarm_fd = alarm_fd_;
  Deadline next = first_renewal_;
  const int outage_fd = backend_->health().outage_fd;
  for (bool lost = false, soon = false;;) {  // soon: renews because of an outage
    nap(lost ? quiet_look : until(next), lost ? -1 : alarm_fd, lost || soon ? -1 : outage_fd);
    const Request asked = request();
    switch (asked.what) {
      case Request::release: give_back(lease, lost); return Next::over;
      case Request::leave:
      case Request::queue_again:
        if (!lost) (void)withdraw_start(lease);
        if (asked.what == Request::queue_again) {
          if (!lost) undo(lease);
          asking_.owner = Owner::random();  // the lease's owner must not come back
          nap(asked.span);
          return Next::again;
        }
        if (!lost || several_) {
          events_.trace_invoke("release");
          trace_released(backend_->release(lease));
        }
        report(Left{});
        return Next::over;
      case Request::detach: {
        if (forgets_start_ && !lost) forget_noted(lease);
        const auto answer =
            lost ? Result<Renewal>(Lost{"lost"}) : backend_->detach(lease, asked.span, run_end_);
        const bool kept = answer && std::holds_alternative<dlock::Kept>(*answer);
        report(Detached{kept, kept     ? ""
                              : answer ? std::get<Lost>(*answer).why
                                       : answer.error().message});
        if (kept) return Next::over;
        break;
      }
      case Request::none: break;
    }
    if (lost) continue;
    pollfd p[] = {{alarm_fd, POLLIN, 0}, {soon ? -1 : outage_fd, POLLIN, 0}};
    ::poll(p, 2, 0);
    if (p[1].revents != 0) {
      soon = true;
      next = std::min(
          next, later(Clock::now(), spread(std::min<Duration>(1s, plan_.timing.renew_every / 4))));
    }
    if ((p[0].revents == 0 || !backend_->alarmed(lease)) && Clock::now() < next) continue;
    soon = false;
    lost = !renew(lease, next);
  }
}

// Before a new attempt: repeats until the release is answered, or the lease has expired, which
// would block our own attempt.
void Keeper::undo(const Lease& lease) {
  const Deadline end = std::min(lease.deadline, wait_until_);
  events_.trace_invoke("release");
  for (Duration retry = first_retry;; retry = std::min(retry * 2, last_retry)) {
    const auto answer = backend_->release(lease);
    if (answer || !retryable(answer.error().code) || requested() ||
        later(Clock::now(), retry) >= end)
      return trace_released(answer);
    nap(jitter(retry));
  }
}

void Keeper::trace_released(const Result<dlock::Released>& answer) {
  if (!answer) events_.trace_result("release", "info");
  else events_.trace_result("release", *answer == dlock::Released::yes ? "ok" : "fail");
}

void Keeper::give_back(const Lease& lease, bool lost) {
  // of several the others are held
  if (lost && !several_) return report(Released{false, "it was lost"});
  if (forgets_start_) forget_noted(lease);
  const Deadline until_then = later(Clock::now(), plan_.timing.op_timeout);
  events_.trace_invoke("release");
  bool asked = false;  // after an unanswered attempt, not held counts as released
  for (Duration retry = first_retry;; retry *= 2) {
    const auto answer = backend_->release(lease, run_end_);
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
