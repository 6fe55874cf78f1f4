// SPDX-License-Identifier: Apache-2.0
// The part of Policy about the lock (the wait, the lease, a hold without a job) and about signals.
#include "run/policy.hpp"
#include <algorithm>
#include "core/exit_status.hpp"
#include "job/signals.hpp"

namespace dlock::run {

using namespace std::chrono_literals;
using How = Outcome::How;

namespace {

// After a grant that came too late to be used: the pause before dlock asks the store again.
constexpr Duration first_pause = 100ms, longest_pause = 2s;

}  // namespace

Actions Policy::step(const Event& e, Deadline now) {
  actions_.clear();
  if (const auto* reported = std::get_if<KeeperEvent>(&e)) wait_.observe(*reported);
  if (phase_ != Phase::over) on(e, now);
  return std::move(actions_);
}

// ---- the lock ----------------------------------------------------------------------------------

void Policy::set_lease(Deadline deadline) {
  deadline_ = deadline;
  when_.kill_at = deadline == no_deadline ? no_deadline : deadline - plan_.timing.margin;
  when_.term_at = deadline == no_deadline ? no_deadline : when_.kill_at - plan_.timing.kill_after;
  if (!kills_when_lost()) when_.kill_at = no_deadline;
}

void Policy::on(const event::Acquired& e, Deadline now) {
  if (phase_ != Phase::waiting) return;  // dlock leaves the queue; the Keeper releases the grant
  granted_at_ = now;
  set_lease(e.leases.front().deadline);
  if (!plan_.has_job()) {
    phase_ = Phase::holding;
    return act(action::HandOver{});
  }
  if (now >= when_.term_at) return queue_again(now);
  phase_ = Phase::starting;
  act(action::StartJob{});  // carries the deadlines, so no job ever runs without them
}

void Policy::queue_again(Deadline now) {
  phase_ = Phase::waiting;
  pause_ = std::clamp<Duration>(pause_ * 2, first_pause, longest_pause);
  wait_.begin(now);  // count the pause as part of the next try
  when_ = {};
  deadline_ = granted_at_ = no_deadline;
  revoked_ = false;
  announce(Note::too_late);
  act(action::QueueAgain{pause_});
}

void Policy::on(const event::Renewed& e, Deadline) {
  // A loss is final, and the job is being ended. The renewal only means that the store keeps others
  // out a little longer.
  if (lost_) {
    deadline_ = std::max(deadline_, e.deadline);
    return;
  }
  set_lease(e.deadline);
  if (job_may_live()) act(action::SendDeadlines{});
}

// Ends the job like --max-run, once per grant. A revocation does not count as a signal of the user:
// the user's next signal is still the first signal.
void Policy::on(const event::Revoked&, Deadline now) {
  if (phase_ == Phase::lingering) return release(now);
  if (phase_ == Phase::holding) {
    announce(Note::revoked);
    return end_hold({false, status_revoked, How::revoked}, now);
  }
  if (!guarded() || std::exchange(revoked_, true)) return;
  announce(Note::revoked);
  end_job(now);
}

void Policy::on(const event::KeeperLost&, Deadline now) {
  if (job_may_live()) {
    when_.term_at = now;
    if (kills_when_lost())
      when_.kill_at = std::min(when_.kill_at, later(now, plan_.timing.kill_after));
    deadline_ = std::min(deadline_, when_.kill_at);
    act(action::SendDeadlines{});  // the guard replies with `expired`
  } else if (phase_ == Phase::holding) {
    lose_hold(now);
  } else if (phase_ == Phase::lingering || phase_ == Phase::detaching) {
    announce(Note::not_released);
    end(result());
  }
}

void Policy::end_job(Deadline now) {
  act(action::SignalTree{plan_.end_signal});
  when_.stop_by = std::min(when_.stop_by, later(now, plan_.timing.kill_after));
}

// Leaves the queue: the wait is over, or somebody ended it. A client library may block the Keeper,
// so the Keeper gets a bounded time.
void Policy::leave(Deadline now) {
  phase_ = Phase::leaving;
  step_by_ = later(now, time_to_leave);
  act(action::LeaveQueue{});
}

void Policy::end_wait() {
  if (requested_end_) return end(*requested_end_);
  const bool busy = wait_.busy();
  announce(busy ? Note::busy : Note::silent);
  if (busy) end({false, plan_.conflict_status, How::busy});
  else end({false, status_unavailable, How::error});
}

void Policy::on(const event::WaitEnded& e, Deadline) {
  if (phase_ == Phase::leaving && requested_end_) return end_wait();
  if (phase_ == Phase::waiting || phase_ == Phase::leaving)
    end({false, e.status, e.busy ? How::busy : How::error});
}

void Policy::on(const event::WaitLeft&, Deadline) {
  if (phase_ == Phase::leaving) end_wait();
}

// ---- without a job -----------------------------------------------------------------------------

void Policy::on(const event::HandedOver& e, Deadline now) {
  if (phase_ != Phase::holding) return;
  if (!e.done) return end_hold({false, status_failed_holding, How::failed}, now);
  if (!plan_.holds_until_asked) return end({});
  if (plan_.max_hold > 0us) hold_until_ = later(granted_at_, plan_.max_hold);
}

void Policy::on(const event::EndRequested& e, Deadline now) {
  if (phase_ == Phase::holding) return end_hold(e.outcome, now);
  if (phase_ != Phase::waiting) return;
  requested_end_ = e.outcome;
  leave(now);
}

// A loss counts more than any request to end.
void Policy::end_hold(Outcome outcome, Deadline now) {
  if (plan_.holds_until_asked && now >= when_.kill_at) return lose_hold(now);
  requested_end_ = outcome;
  release(now);
}

void Policy::lose_hold(Deadline now) {
  on(event::Expired{}, now);
  plan_.several() ? release(now) : end(result());
}

// ---- the user's signals ------------------------------------------------------------------------

bool Policy::is_repeated(int signal, Deadline now) {
  const bool same = signal == last_end_ && now - ended_at_ < same_request;
  if (!same) {
    last_end_ = signal;
    ended_at_ = now;
  }
  return same;
}

void Policy::on(const event::Signal& e, Deadline now) {
  switch (phase_) {
    case Phase::waiting:
      if (is_stop_signal(e.number)) return act(action::StopSelf{e.number});
      if (e.number == SIGCONT) return act(action::CancelStop{});
      if (ignored_by_default(e.number)) return;
      requested_end_ = Outcome{true, e.number, How::signal};
      (void)is_repeated(e.number, now);
      return leave(now);
    case Phase::leaving:
      if (!is_ending_signal(e.number) || is_repeated(e.number, now)) return;
      if (std::exchange(requested_end_, Outcome{true, e.number, How::signal})) end_wait();
      return;
    case Phase::holding:
      if (is_stop_signal(e.number)) return act(action::StopSelf{e.number});
      if (!ignored_by_default(e.number)) end_hold({true, e.number, How::signal}, now);
      return;
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: return forward(e, now);
    case Phase::lingering:
      if (is_ending_signal(e.number)) release(now);
      return;
    case Phase::detaching:
      if (is_ending_signal(e.number)) hold_until_ = now;
      return;
    case Phase::releasing:  // dlock waits for one reply of the store, whatever signals come
    case Phase::own_sweep:
    case Phase::over: return;
  }
}

void Policy::forward(const event::Signal& e, Deadline now) {
  const bool ending = is_ending_signal(e.number);
  if (ending && e.number == last_end_ && now - ended_at_ < same_request) return;
  // The terminal sent its signal to the whole group, including the job. Before JobStarted the job
  // may have missed that signal, so dlock forwards it: two signals are better than none.
  const bool of_terminal = same_group_ && e.from_kernel;
  // When a terminal hangs up, the kernel signals only the leader of the session.
  const bool sent_to_us_alone = e.number == SIGHUP && session_leader_;
  const bool job_has_it = of_terminal && phase_ != Phase::starting && !sent_to_us_alone;
  if (!job_has_it) {
    if (phase_ == Phase::descendants) act(action::SignalTree{e.number});
    else act(action::SendSignal{e.number});
  }
  // The job decides what Ctrl-C means; a database shell, for example, goes on. A HUP from a process
  // means "reload", so only the terminal's HUP asks for the end.
  const bool asks_to_end = e.number == SIGHUP ? e.from_kernel : ending && !of_terminal;
  if (!asks_to_end) return;
  // Continue the job, because a stopped job could not handle the signal.
  if (!job_has_it && phase_ != Phase::descendants) act(action::SendSignal{SIGCONT});
  when_.stop_by =
      last_end_ != 0 ? now : std::min(when_.stop_by, later(now, plan_.timing.kill_after));
  last_end_ = e.number;
  ended_at_ = now;
  if (job_has_it) act(action::SendDeadlines{});
}

}  // namespace dlock::run
