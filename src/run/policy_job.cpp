// SPDX-License-Identifier: Apache-2.0
// The part of Policy about the job: its life, its end, and the release of the lock after it.
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include "core/exit_status.hpp"
#include "run/policy.hpp"

namespace dlock::run {

using namespace std::chrono_literals;
using How = Outcome::How;

namespace {

constexpr Duration first_sweep_pause = 10ms, longest_sweep_pause = 100ms;
constexpr Duration first_notice = 1s, next_notice = 10s;
// How long after the end of the lease dlock waits for a member that does not die.
constexpr Duration grace_to_die = 5s;

}  // namespace

void Policy::on(const event::JobStarted&, Deadline now) {
  if (phase_ != Phase::starting) return;
  phase_ = Phase::running;
  if (plan_.max_run > 0us) max_run_at_ = later(now, plan_.max_run);
}

void Policy::on(const event::StartFailed& e, Deadline now) {
  start_failed_ = true;
  exec_error_ = e.error;
  when_.stop_by = std::min(when_.stop_by, now);  // there is no job to wait for
}

void Policy::on(const event::StartRefused&, Deadline now) {
  if (phase_ != Phase::starting) return;
  const int end_signal = last_end_;
  last_end_ = 0;
  queue_again(now);
  if (end_signal != 0) on(event::Signal{end_signal, false}, now);
}

void Policy::on(const event::ExecFailed& e, Deadline) { exec_error_ = e.error; }

void Policy::on(const event::JobStopped& e, Deadline) {
  if (!same_group_ || phase_ == Phase::descendants || !job_may_live()) return;
  // dlock stops when the job stops, so that dlock's shell notices.
  if (!e.orphaned) return act(action::StopSelf{e.signal});
  // No process could continue dlock, so dlock does not stop. In an orphaned group, the kernel
  // itself would have dropped a TSTP, and made the access to the terminal fail with EIO.
  if (e.signal == SIGTTIN || e.signal == SIGTTOU) act(action::SendSignal{SIGHUP});
  if (e.signal != SIGSTOP) act(action::SendSignal{SIGCONT});
}

void Policy::on(const event::JobContinued&, Deadline) { act(action::CancelStop{}); }

void Policy::on(const event::JobExited& e, Deadline now) {
  status_ = e.status;
  if (phase_ != Phase::starting && phase_ != Phase::running) return;
  phase_ = Phase::descendants;
  notice_at_ = later(now, first_notice);
  if (plan_.descendants == Descendants::kill && exec_error_ == 0) end_job(now);
}

// The guard itself acts at this deadline. If it is stopped or stuck, it neither acts nor sends KILL
// later; then GuardWatchdog kills it.
void Policy::on(const event::MaxRunOver&, Deadline now) {
  if (!guarded()) return;
  max_run_at_ = no_deadline;
  if (std::exchange(max_run_over_, true)) return;
  when_.stop_by = std::min(when_.stop_by, later(now, plan_.timing.kill_after));
  announce(Note::max_run);
}

void Policy::on(const event::Expired&, Deadline) {
  if (lost_) return;
  lost_ = true;
  announce(Note::lost);
}

void Policy::on(const event::Killing&, Deadline now) {
  killing_ = true;
  notice_at_ = later(now, first_notice);
}

void Policy::on(const event::TreeDead& e, Deadline now) { job_is_over(e, now); }
void Policy::on(const event::TreeLeft& e, Deadline now) { job_is_over(e, now); }

template <class TreeEnd>
void Policy::job_is_over(const TreeEnd& e, Deadline now) {
  if (!guarded()) return;
  if (status_ < 0) status_ = e.status;  // the command was the last to end, so no JobExited came
  if (e.expired) on(event::Expired{}, now);
  give_back(now);
}

void Policy::on(const event::GuardGone&, Deadline now) {
  if (phase_ == Phase::waiting) {
    requested_end_ = Outcome{false, status_unavailable, How::error};
    announce(Note::no_guard);
    return leave(now);
  }
  if (!guarded()) return;
  guard_failed_ = true;
  announce(Note::guard_died);
  if (now >= when_.kill_at) on(event::Expired{}, now);
  phase_ = Phase::own_sweep;  // the guard's death killed the job, and dlock inherited the orphans
  notice_at_ = later(now, first_notice);
  sweep_pause_ = first_sweep_pause;
  step_by_ = later(now, sweep_pause_);
  act(action::SweepOwn{});
}

void Policy::on(const event::OwnSweepDone&, Deadline now) {
  if (phase_ == Phase::own_sweep) give_back(now);
}

Deadline Policy::wake_at() const noexcept {
  switch (phase_) {
    case Phase::waiting: return wait_.over_at();
    case Phase::over: return no_deadline;
    case Phase::leaving:
    case Phase::detaching:
    case Phase::releasing: return step_by_;
    case Phase::lingering: return std::min(hold_until_, deadline_);
    case Phase::holding: return std::min(hold_until_, when_.kill_at);
    case Phase::own_sweep: return step_by_;
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: break;
  }
  const Deadline watchdog = killing_ ? no_deadline : watchdog_.wake_at(when_);
  const Deadline give_up = killing_ && lost_ ? later(deadline_, grace_to_die) : no_deadline;
  return std::min({max_run_at_, watchdog, notice_at_, give_up});
}

void Policy::on(const event::Tick&, Deadline now) {
  if (now < wake_at()) return;
  switch (phase_) {
    case Phase::leaving: return end_wait();
    case Phase::detaching:
      announce(Note::holding);
      phase_ = Phase::lingering;
      return;
    case Phase::lingering:
      if (now >= hold_until_) return release(now);
      announce(Note::not_released);  // the lease is over
      return end(result());
    case Phase::holding:
      if (now >= when_.kill_at) return lose_hold(now);
      return end_hold({false, status_ok, How::max_hold}, now);
    case Phase::releasing: return on(event::ReleaseDone{false}, now);
    case Phase::own_sweep:
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: break;
    case Phase::waiting: return leave(now);
    case Phase::over: return;
  }
  const bool dying = killing_ || phase_ == Phase::own_sweep;
  if (now >= notice_at_) {
    if (dying) announce(Note::stuck);
    else if (phase_ == Phase::descendants && plan_.descendants == Descendants::wait)
      announce(Note::descendants);
    notice_at_ = dying ? later(now, next_notice) : no_deadline;
  }
  // The store may have granted the lock to others by now. dlock gives up, and the guard goes on
  // alone. Without a guard dlock does not give up: only dlock can then end the tree and hold the
  // locks of the runs in it.
  if (dying && phase_ != Phase::own_sweep && now >= later(deadline_, grace_to_die)) {
    gave_up_ = true;
    return end(result());
  }
  if (phase_ == Phase::own_sweep) {
    if (!lost_ && now >= when_.kill_at) on(event::Expired{}, now);
    sweep_pause_ = std::min(sweep_pause_ * 2, longest_sweep_pause);
    step_by_ = later(now, sweep_pause_);
    return act(action::SweepOwn{});
  }
  if (now >= max_run_at_) on(event::MaxRunOver{}, now);
  // The guard did not report a kill, so it is stopped or stuck.
  if (!killing_ && watchdog_.due(when_, now)) act(action::KillGuard{});
}

// ---- the end -----------------------------------------------------------------------------------

void Policy::give_back(Deadline now) {
  // Another owner may hold the lock now, so dlock must not release it. With several keys, release()
  // frees those that are still held.
  if (lost_) return plan_.several() ? release(now) : end(result());
  const bool ran = exec_error_ == 0 && !guard_failed_;
  // Only a failure that dlock saw counts. A command whose end is unknown may have done its work.
  const Outcome end_of_job = result();
  const bool succeeded = end_of_job.how == How::command && end_of_job.value == 0;
  withdraws_start_ = plan_.once_per && plan_.until_success && end_of_job.job_ended() && !succeeded;
  hold_until_ = ran ? later(granted_at_, plan_.min_hold) : now;
  if (hold_until_ <= now) return release(now);
  if (plan_.traits.detached) {
    phase_ = Phase::detaching;
    step_by_ = time_to_give_back(now);
    act(action::Detach{.span = std::chrono::duration_cast<Duration>(hold_until_ - now),
                       .outcome = result(),
                       .forget_start = forgets_start()});
  } else {
    phase_ = Phase::lingering;
    announce(Note::holding);
  }
}

void Policy::on(const event::DetachDone& e, Deadline now) {
  if (phase_ != Phase::detaching && phase_ != Phase::lingering) return;
  if (e.confirmed) return end(result());
  if (hold_until_ <= now) return release(now);
  if (phase_ == Phase::detaching) announce(Note::holding);
  phase_ = Phase::lingering;
}

void Policy::release(Deadline now) {
  phase_ = Phase::releasing;
  step_by_ = time_to_give_back(now);
  act(action::Release{.outcome = result(), .forget_start = forgets_start()});
}

// Returns whether to withdraw the recorded start: no command started, or the command failed under
// --until-success.
bool Policy::forgets_start() const noexcept {
  return withdraws_start_ || start_failed_ || exec_error_ != 0;
}

// Withdrawing the start is a separate exchange. It gets its own time, so the release keeps its
// whole time.
Deadline Policy::time_to_give_back(Deadline now) const noexcept {
  return later(now, plan_.timing.op_timeout * (withdraws_start_ ? 2 : 1));
}

void Policy::on(const event::ReleaseDone& e, Deadline) {
  if (phase_ != Phase::releasing) return;
  if (!e.confirmed && !lost_) announce(Note::not_released);
  end(result());
}

Outcome Policy::result() const noexcept {
  if (gave_up_) return {false, status_failed_holding, How::failed};
  if (lost_) return {false, status_lost, How::lost};
  if (requested_end_) return *requested_end_;
  if (guard_failed_ || start_failed_) return {false, status_failed_holding, How::failed};
  if (exec_error_ != 0)
    return {false, exec_error_ == ENOENT ? status_not_found : status_cannot_execute,
            How::not_started};
  if (revoked_) return {false, status_revoked, How::revoked};
  if (max_run_over_) return {false, status_max_run, How::max_run};
  if (status_ < 0) return {false, status_failed_holding, How::failed};
  if (WIFSIGNALED(status_)) return {true, WTERMSIG(status_), How::signal};
  return {false, WEXITSTATUS(status_), How::command};
}

void Policy::end(Outcome o) {
  phase_ = Phase::over;
  act(action::End{o});
}
bool Policy::may_stop() const noexcept {
  return phase_ == Phase::waiting || phase_ == Phase::holding || phase_ == Phase::starting ||
         phase_ == Phase::running;
}
// Returns whether the guard has a job, or an order to start one.
bool Policy::guarded() const noexcept {
  return phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::descendants;
}

}  // namespace dlock::run
