// SPDX-License-Identifier: Apache-2.0
// The part of Keeper about a lock that the Keeper holds: it renews, detaches and releases.
#include <poll.h>
#include <algorithm>
#include <utility>
#include "run/keeper.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

// Renews once. Returns false if the lock is lost. An error changes only the time of the next try.
// That is safe, because the deadline stays.
bool Keeper::renew() {
  Result<Renewal> answer = fail(Errc::internal, "");
  output_.trace("invoke", "renew");
  try {
    answer = backend_->renew(*lease_, plan_.request.ttl);
  } catch (const std::exception& e) {
    // A client library threw: the outcome is unknown.
    answer = fail(Errc::protocol, e.what());
  }
  const Deadline now = Clock::now();
  read_health();
  if (!answer) {
    output_.trace("info", "renew");
    report(event::RenewFailed{answer.error().message});
    renew_at_ = later(now, jitter(std::clamp<Duration>(plan_.timing.renew_every / 8, 50ms, 1s)));
    return true;
  }
  if (auto* kept = std::get_if<Kept>(&*answer)) {
    lease_ = kept->lease;
    lease_->ended.clear();
    renew_at_ = next_renewal(plan_.timing, lease_->deadline, now);
    output_.trace("ok", "renew", {{"deadline", nanoseconds(lease_->deadline)}});
    report(event::Renewed{lease_->deadline});
    if (kept->revoked) report(event::Revoked{});
    return true;
  }
  output_.trace("fail", "renew");
  report(event::KeeperLost{std::get<Lost>(*answer).why});
  return false;
}

void Keeper::take_program_end() {
  const std::lock_guard lock(mutex_);
  if (program_end_.empty()) return;
  lease_->ended = std::exchange(program_end_, {});
  if (plan_.traits.liveness == Liveness::process) renew_at_ = Clock::now();
}

void Keeper::hold() {
  const int outage_fd = backend_->health().outage_fd;
  for (bool lost = false, soon = false; !over_;) {  // soon: renew early, after an outage
    nap(lost ? quiet_report : until(renew_at_), lost ? -1 : alarm_fd_,
        lost || soon ? -1 : outage_fd);
    const std::optional<KeeperAction> requested = request();
    const KeeperAction* const order = requested ? &*requested : nullptr;
    if (const auto* last = std::get_if<action::Release>(order)) {
      // With several keys, the keys that are not lost are still held.
      if (!lost || plan_.several()) return release(*last);
      return finish(event::ReleaseDone{false, "it was lost"});
    }
    if (std::get_if<action::LeaveQueue>(order)) {
      if (!lost) (void)withdraw_start(*lease_);
      if (!lost || plan_.several()) (void)release_until(Clock::now());
      return finish(event::WaitLeft{});
    }
    if (const auto* again = std::get_if<action::QueueAgain>(order)) {
      if (!lost) {
        (void)withdraw_start(*lease_);
        // A lease that stays would block our own next attempt until it expires.
        (void)release_until(std::min(lease_->deadline, wait_.until()));
      }
      attempt_.owner = Owner::random();  // the owner of the lease must not be used again
      return nap(again->pause);
    }
    if (const auto* last = std::get_if<action::Detach>(order)) {
      if (lost) report(event::DetachDone{false, "lost"});
      else detach(*last);
    }
    if (lost || over_) continue;
    take_program_end();
    pollfd p[] = {{alarm_fd_, POLLIN, 0}, {soon ? -1 : outage_fd, POLLIN, 0}};
    ::poll(p, 2, 0);
    if (p[1].revents != 0) {
      soon = true;
      const auto most = std::min<Duration>(1s, plan_.timing.renew_every / 4);
      renew_at_ = std::min(renew_at_, later(Clock::now(), spread(most)));
    }
    const bool alarmed = p[0].revents != 0 && backend_->alarmed(*lease_);
    if (!alarmed && Clock::now() < renew_at_) continue;
    soon = false;
    lost = !renew();
  }
}

void Keeper::detach(const action::Detach& order) {
  if (order.forget_start) forget_recorded_start(*lease_);
  const auto answer = backend_->detach(*lease_, order.span, run_end(order.outcome));
  if (!answer) return report(event::DetachDone{false, answer.error().message});
  if (const auto* gone = std::get_if<Lost>(&*answer))
    return report(event::DetachDone{false, gone->why});
  finish(event::DetachDone{.confirmed = true});
}

// Repeats the release until the store replies. Gives up at `end`, after an error that a retry does
// not fix, or when a new request is pending.
Result<Released> Keeper::release_until(Deadline end, std::optional<RunEnd> job) {
  output_.trace("invoke", "release");
  // true: an earlier try may have released the lock, so "not held" is a success
  bool unanswered = false;
  for (Duration retry = first_retry;; retry = std::min(retry * 2, last_retry)) {
    auto answer = backend_->release(*lease_, job);
    if (answer && unanswered) answer = Released::yes;
    if (answer || !retryable(answer.error().code) || requested() ||
        later(Clock::now(), retry) >= end) {
      output_.trace(!answer ? "info" : *answer == Released::yes ? "ok" : "fail", "release");
      return answer;
    }
    unanswered |= answer.error().code != Errc::unavailable;
    nap(jitter(retry));
  }
}

// Returns how the job ended, for the record of the key's last run.
std::optional<RunEnd> Keeper::run_end(const Outcome& outcome) const {
  if (!plan_.has_job() || !outcome.job_ended()) return std::nullopt;
  return RunEnd{outcome.by_signal, outcome.value};
}

void Keeper::release(const action::Release& order) {
  if (order.forget_start) forget_recorded_start(*lease_);
  const auto answer =
      release_until(later(Clock::now(), plan_.timing.op_timeout), run_end(order.outcome));
  if (!answer) return finish(event::ReleaseDone{false, answer.error().message, true});
  const bool held = *answer == Released::yes;
  finish(event::ReleaseDone{held, held ? "" : "it was not held any more"});
}

}  // namespace dlock::run
