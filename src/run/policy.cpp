// SPDX-License-Identifier: Apache-2.0
#include "run/policy.hpp"
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include <utility>
#include "core/exit_status.hpp"
#include "run/signals.hpp"

namespace dlock::run {

using namespace std::chrono_literals;
using Do = Action::Do;
using Note = Action::Note;
using How = Outcome::How;

namespace {

constexpr Duration own_sweep_every = 10ms;
// before a store that grants too late is asked again
constexpr Duration first_pause = 100ms, longest_pause = 2s;
constexpr Duration first_word = 1s, next_word = 10s;
constexpr Duration grace_to_die = 5s;  // after the end of the lease, for a member that will not die

}  // namespace

Actions Policy::step(const Event& e, Deadline now) {
  actions_.clear();
  if (phase_ != Phase::over) on(e, now);
  return std::move(actions_);
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
  const Deadline second_line = killing_ ? no_deadline : second_line_.wake_at(when_);
  const Deadline give_up = killing_ && lost_ ? later(deadline_, grace_to_die) : no_deadline;
  return std::min({max_run_at_, second_line, next_word_, give_up});
}

// ---- the lock ----------------------------------------------------------------------------------

void Policy::set_lease(Deadline deadline) {
  deadline_ = deadline;
  when_.kill_at = deadline == no_deadline ? no_deadline : deadline - rules_.timing.margin;
  when_.term_at = deadline == no_deadline ? no_deadline : when_.kill_at - rules_.timing.kill_after;
  if (!rules_.kill_when_lost) when_.kill_at = no_deadline;
}

void Policy::on(const event::WaitBegan& e, Deadline) { wait_.begin(e.at); }
void Policy::on(const event::Answered& e, Deadline) { wait_.answered(e.asked_at); }
void Policy::on(const event::NoAnswer& e, Deadline) {
  e.reached ? wait_.grants_nothing() : wait_.failed();
}

void Policy::on(const event::Granted& e, Deadline now) {
  wait_.answered(now);
  if (phase_ != Phase::waiting) return;  // dlock is leaving the queue: the keeper releases it
  granted_at_ = now;
  set_lease(e.leases.front().deadline);
  if (!rules_.has_job) {
    phase_ = Phase::holding;
    return act(Do::hand_over);
  }
  if (now >= when_.term_at) return queue_again(now);
  phase_ = Phase::starting;
  act(Do::start_job);  // its deadlines are in the same message: there is never a job without one
}

void Policy::queue_again(Deadline now) {
  phase_ = Phase::waiting;
  pause_ = std::clamp<Duration>(pause_ * 2, first_pause, longest_pause);
  wait_.begin(now);  // the pause is part of the time of the next try
  when_ = {};
  deadline_ = granted_at_ = no_deadline;
  revoked_ = false;
  say(Note::too_late);
  actions_.push_back({.what = Do::queue_again, .span = pause_});
}

void Policy::on(const event::Kept& e, Deadline) {
  // the latch: the job is being ended; the store still keeps others out a little longer
  if (lost_) {
    deadline_ = std::max(deadline_, e.deadline);
    return;
  }
  set_lease(e.deadline);
  if (job_may_live()) act(Do::send_deadlines);
}

// Like --max-run, once a grant. It is no signal of the user, so it does not make one before or after
// it the second.
void Policy::on(const event::Revoked&, Deadline now) {
  const bool running =
      phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::descendants;
  if (phase_ == Phase::lingering) return release(now);
  if (phase_ == Phase::holding) {
    say(Note::revoked);
    return end_hold({false, status_revoked, How::revoked}, now);
  }
  if (!running || std::exchange(revoked_, true)) return;
  say(Note::revoked);
  end_job(now);
}

void Policy::on(const event::KeeperLost&, Deadline now) {
  if (job_may_live()) {
    when_.term_at = now;
    if (rules_.kill_when_lost)
      when_.kill_at = std::min(when_.kill_at, later(now, rules_.timing.kill_after));
    deadline_ = std::min(deadline_, when_.kill_at);
    act(Do::send_deadlines);  // the guard answers `expired`
  } else if (phase_ == Phase::holding) {
    lose_hold(now);
  } else if (phase_ == Phase::lingering || phase_ == Phase::detaching) {
    say(Note::not_released);
    end(result());
  }
}

void Policy::end_job(Deadline now) {
  act(Do::signal_all, rules_.end_signal);
  when_.stop_by = std::min(when_.stop_by, later(now, rules_.timing.kill_after));
  act(Do::send_deadlines);
}

// The wait is over, or was ended. The keeper may be blocked in a client library: it is told to
// leave, and has this long to do it.
void Policy::leave(Deadline now) {
  phase_ = Phase::leaving;
  step_by_ = later(now, time_to_leave);
  act(Do::leave_queue);
}

void Policy::end_wait() {
  if (asked_end_) return end(*asked_end_);
  const bool busy = wait_.busy();
  say(busy ? Note::busy : Note::silent);
  if (busy) end({false, rules_.conflict_status, How::busy});
  else end({false, status_unavailable, How::error});
}

void Policy::on(const event::WaitEnded& e, Deadline) {
  if (phase_ == Phase::leaving && asked_end_) return end_wait();
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
  if (!rules_.stays) return end({});
  if (rules_.max_hold > 0us) hold_until_ = later(granted_at_, rules_.max_hold);
}

void Policy::on(const event::EndAsked& e, Deadline now) {
  if (phase_ == Phase::holding) return end_hold(e.outcome, now);
  if (phase_ != Phase::waiting) return;
  asked_end_ = e.outcome;
  leave(now);
}

// A loss comes first, whatever asks for the end.
void Policy::end_hold(Outcome outcome, Deadline now) {
  if (rules_.stays && now >= when_.kill_at) return lose_hold(now);
  asked_end_ = outcome;
  release(now);
}

void Policy::lose_hold(Deadline now) {
  on(event::Expired{}, now);
  rules_.several ? release(now) : end(result());
}

// ---- the user's signals ------------------------------------------------------------------------

bool Policy::same_again(int signal, Deadline now) {
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
      if (stops(e.number)) return act(Do::stop_self, e.number);
      if (e.number == SIGCONT) return act(Do::stop_self, 0);
      if (ignored_by_default(e.number)) return;
      asked_end_ = Outcome{true, e.number, How::signal};
      (void)same_again(e.number, now);
      return leave(now);
    case Phase::leaving:
      if (!ends(e.number) || same_again(e.number, now)) return;
      if (std::exchange(asked_end_, Outcome{true, e.number, How::signal})) end_wait();
      return;
    case Phase::holding:
      if (stops(e.number)) return act(Do::stop_self, e.number);
      if (!ignored_by_default(e.number)) end_hold({true, e.number, How::signal}, now);
      return;
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: return forward(e, now);
    case Phase::lingering:
      if (ends(e.number)) release(now);
      return;
    case Phase::detaching:
      if (ends(e.number)) hold_until_ = now;
      return;
    case Phase::releasing:  // has the store's time for one answer, whatever signals come
    case Phase::own_sweep:
    case Phase::over: return;
  }
}

void Policy::forward(const event::Signal& e, Deadline now) {
  const bool ending = ends(e.number);
  if (ending && e.number == last_end_ && now - ended_at_ < same_request) return;
  // A signal of the terminal went to the whole group, including the job. Before `started` the job
  // may have missed it: twice rather than never.
  const bool of_terminal = rules_.same_group && e.from_kernel;
  // When a terminal hangs up, the kernel signals only the leader of the session.
  const bool told_us_alone = e.number == SIGHUP && rules_.session_leader;
  const bool job_has_it = of_terminal && phase_ != Phase::starting && !told_us_alone;
  if (!job_has_it) act(phase_ == Phase::descendants ? Do::signal_all : Do::send_signal, e.number);
  // A terminal's Ctrl-C is the job's to interpret: a database shell lives on. A HUP from a process
  // means "reload".
  const bool asks_to_end = e.number == SIGHUP ? e.from_kernel : ending && !of_terminal;
  if (!asks_to_end) return;
  // or a stopped job would get it too late
  if (!job_has_it && phase_ != Phase::descendants) act(Do::send_signal, SIGCONT);
  when_.stop_by =
      last_end_ != 0 ? now : std::min(when_.stop_by, later(now, rules_.timing.kill_after));
  last_end_ = e.number;
  ended_at_ = now;
  act(Do::send_deadlines);
}

// ---- the job -----------------------------------------------------------------------------------

void Policy::on(const event::JobStarted&, Deadline now) {
  if (phase_ != Phase::starting) return;
  phase_ = Phase::running;
  if (rules_.max_run > 0us) max_run_at_ = later(now, rules_.max_run);
}

void Policy::on(const event::StartFailed& e, Deadline now) {
  start_failed_ = true;
  exec_error_ = e.error;
  when_.stop_by = std::min(when_.stop_by, now);  // the guard, too, has nothing to wait for
}

void Policy::on(const event::StartRefused&, Deadline now) {
  if (phase_ != Phase::starting) return;
  const int asked_to_end = last_end_;
  last_end_ = 0;
  queue_again(now);
  if (asked_to_end != 0) on(event::Signal{asked_to_end, false}, now);
}

void Policy::on(const event::ExecFailed& e, Deadline) { exec_error_ = e.error; }

void Policy::on(const event::JobStopped& e, Deadline) {
  if (!rules_.same_group || phase_ == Phase::descendants || !job_may_live()) return;
  // a shell must see dlock stopped when it would see the job stopped
  if (!e.orphaned) return act(Do::stop_self, e.signal);
  // No process could continue dlock. The kernel would have dropped a TSTP and failed the terminal
  // access with EIO.
  if (e.signal == SIGTTIN || e.signal == SIGTTOU) act(Do::send_signal, SIGHUP);
  if (e.signal != SIGSTOP) act(Do::send_signal, SIGCONT);
}

void Policy::on(const event::JobContinued&, Deadline) { act(Do::stop_self, 0); }

void Policy::on(const event::JobExited& e, Deadline now) {
  status_ = e.status;
  if (phase_ != Phase::starting && phase_ != Phase::running) return;
  phase_ = Phase::descendants;
  next_word_ = later(now, first_word);
  if (rules_.descendants == Descendants::kill && exec_error_ == 0) end_job(now);
}

// The guard's own deadline. If the guard misses it, because it is stopped or stuck, it will not
// send KILL either: then the second line does.
void Policy::on(const event::MaxRunOver&, Deadline now) {
  if (phase_ != Phase::starting && phase_ != Phase::running && phase_ != Phase::descendants) return;
  max_run_at_ = no_deadline;
  if (std::exchange(max_run_over_, true)) return;
  when_.stop_by = std::min(when_.stop_by, later(now, rules_.timing.kill_after));
  say(Note::max_run);
}

void Policy::on(const event::Expired&, Deadline) {
  if (lost_) return;
  lost_ = true;
  say(Note::lost);
}

void Policy::on(const event::Killing&, Deadline now) {
  killing_ = true;
  next_word_ = later(now, first_word);
}

void Policy::on(const event::TreeDead& e, Deadline now) {
  if (!job_may_live() || phase_ == Phase::own_sweep) return;
  if (status_ < 0) status_ = e.status;  // the command was the last to die
  if (e.expired) on(event::Expired{}, now);
  give_back(now);
}

void Policy::on(const event::GuardGone&, Deadline now) {
  if (phase_ == Phase::waiting) {
    asked_end_ = Outcome{false, status_unavailable, How::error};
    say(Note::no_guard);
    return leave(now);
  }
  if (!job_may_live() || phase_ == Phase::own_sweep) return;
  guard_gone_ = guard_failed_ = true;
  say(Note::guard_died);
  if (now >= when_.kill_at) on(event::Expired{}, now);
  phase_ = Phase::own_sweep;  // its death has killed the job; dlock has its orphans now
  next_word_ = later(now, first_word);
  step_by_ = later(now, own_sweep_every);
  act(Do::sweep_own);
}

void Policy::on(const event::OwnSweepDone&, Deadline now) {
  if (phase_ == Phase::own_sweep) give_back(now);
}

void Policy::on(const event::Tick&, Deadline now) {
  if (now < wake_at()) return;
  switch (phase_) {
    case Phase::leaving: return end_wait();
    case Phase::detaching:
      say(Note::holding);
      phase_ = Phase::lingering;
      return;
    case Phase::lingering:
      if (now >= hold_until_) return release(now);
      say(Note::not_released);  // the lease is over
      return end(result());
    case Phase::holding:
      if (now >= when_.kill_at) return lose_hold(now);
      return end_hold({false, status_ok, How::max_hold}, now);
    case Phase::releasing:
      if (rules_.has_job) return on(event::ReleaseDone{false}, now);
      return end(result());
    case Phase::own_sweep:
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: break;
    case Phase::waiting: return leave(now);
    case Phase::over: return;
  }
  if (now >= next_word_) {
    if (killing_ || phase_ == Phase::own_sweep) say(Note::stuck);
    else if (phase_ == Phase::descendants && rules_.descendants == Descendants::wait)
      say(Note::descendants);
    next_word_ = killing_ || phase_ == Phase::own_sweep ? later(now, next_word) : no_deadline;
  }
  if ((killing_ || phase_ == Phase::own_sweep) && now >= later(deadline_, grace_to_die)) {
    // the store has granted the lock to others long ago: waiting longer is useless
    gave_up_ = true;
    return end(result());
  }
  if (phase_ == Phase::own_sweep) {
    if (!lost_ && now >= when_.kill_at) on(event::Expired{}, now);
    step_by_ = later(now, own_sweep_every);
    return act(Do::sweep_own);
  }
  if (now >= max_run_at_) on(event::MaxRunOver{}, now);
  // No report of a kill: the guard is stopped or stuck.
  if (!killing_ && second_line_.due(when_, now)) act(Do::kill_guard);
}

// ---- the end -----------------------------------------------------------------------------------

void Policy::give_back(Deadline now) {
  // never release what may be another's
  if (lost_) return rules_.several ? release(now) : end(result());
  const bool ran = exec_error_ == 0 && !guard_failed_;
  // Only a failure that was seen: a command whose end is unknown may have done its work.
  const Outcome end_of_job = result();
  const bool succeeded = end_of_job.how == How::command && end_of_job.value == 0;
  withdraws_ = rules_.until_success && end_of_job.job_ended() && !succeeded;
  if (withdraws_) act(Do::withdraw_start);
  hold_until_ = ran ? later(granted_at_, rules_.min_hold) : now;
  if (hold_until_ <= now) return release(now);
  if (rules_.can_detach) {
    phase_ = Phase::detaching;
    step_by_ = time_to_give_back(now);
    actions_.push_back({.what = Do::detach,
                        .span = std::chrono::duration_cast<Duration>(hold_until_ - now),
                        .outcome = result()});
  } else {
    phase_ = Phase::lingering;
    say(Note::holding);
  }
}

void Policy::on(const event::DetachDone& e, Deadline now) {
  if (phase_ != Phase::detaching && phase_ != Phase::lingering) return;
  if (e.confirmed) return end(result());
  if (hold_until_ <= now) return release(now);
  if (phase_ == Phase::detaching) say(Note::holding);
  phase_ = Phase::lingering;
}

void Policy::release(Deadline now) {
  phase_ = Phase::releasing;
  step_by_ = time_to_give_back(now);
  actions_.push_back({.what = Do::release, .outcome = result()});
}

// The withdrawal is an exchange of its own, before the last one, which keeps its whole time.
Deadline Policy::time_to_give_back(Deadline now) const noexcept {
  return later(now, rules_.timing.op_timeout * (withdraws_ ? 2 : 1));
}

void Policy::on(const event::ReleaseDone& e, Deadline) {
  if (phase_ != Phase::releasing) return;
  if (!e.confirmed && !lost_) say(Note::not_released);
  end(result());
}

Outcome Policy::result() const noexcept {
  if (gave_up_) return {false, status_failed_holding, How::failed};
  if (lost_) return {false, status_lost, How::lost};
  if (asked_end_) return *asked_end_;
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

void Policy::act(Do what, int number) { actions_.push_back({.what = what, .number = number}); }
void Policy::say(Note note) { actions_.push_back({.what = Do::say, .note = note}); }
void Policy::end(Outcome o) {
  phase_ = Phase::over;
  actions_.push_back({.what = Do::end, .outcome = o});
}
bool Policy::may_stop() const noexcept {
  return phase_ == Phase::waiting || phase_ == Phase::holding || phase_ == Phase::starting ||
         phase_ == Phase::running;
}
bool Policy::job_may_live() const noexcept {
  return phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::descendants ||
         phase_ == Phase::own_sweep;
}

}  // namespace dlock::run
