// SPDX-License-Identifier: Apache-2.0
#include "run/policy.hpp"
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include <utility>
#include "core/exit_status.hpp"
#include "run/signal_kinds.hpp"

namespace dlock::run {

using namespace std::chrono_literals;
using Do = Action::Do;
using Note = Action::Note;

namespace {

constexpr Duration same_request = 100ms;  // timeout(1) signals its child and then its group, and means one thing
constexpr Duration own_sweep_every = 10ms;
constexpr Duration first_word = 1s, next_word = 10s;
constexpr Duration grace_to_die = 5s;  // after the lease is over, for a member that will not die

}  // namespace

Actions Policy::step(const Event& e, Deadline now) {
  actions_.clear();
  if (phase_ != Phase::over) std::visit([&](const auto& what) { on(what, now); }, e);
  return std::move(actions_);
}

Deadline Policy::wake_at() const noexcept {
  switch (phase_) {
    case Phase::waiting:
    case Phase::over: return no_deadline;
    case Phase::leaving:
    case Phase::detaching:
    case Phase::releasing: return step_by_;
    case Phase::lingering: return hold_until_;
    case Phase::own_sweep: return step_by_;
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: break;
  }
  const Deadline act_by = std::min(when_.kill_at, when_.stop_by);
  const Deadline second_line = killing_ || guard_killed_ ? no_deadline : later(act_by, rules_.timing.margin / 2);
  const Deadline give_up = killing_ && lost_ ? later(deadline_, grace_to_die) : no_deadline;
  return std::min({max_run_at_, second_line, next_word_, give_up});
}

// ---- the lock ------------------------------------------------------------------------------------------------------

void Policy::set_lease(Deadline deadline) {
  deadline_ = deadline;
  when_.kill_at = deadline == no_deadline ? no_deadline : deadline - rules_.timing.margin;
  when_.term_at = deadline == no_deadline ? no_deadline : when_.kill_at - rules_.timing.kill_after;
  if (!rules_.kill_when_lost) when_.kill_at = no_deadline;
}

void Policy::on(const event::Granted& e, Deadline now) {
  if (phase_ != Phase::waiting) return;  // we are leaving: the keeper gives it back
  granted_at_ = now;
  set_lease(e.deadline);
  if (now >= when_.term_at) return queue_again();
  phase_ = Phase::starting;
  act(Do::start_job);  // its deadlines travel in the same message: there is never a job without one
}

void Policy::queue_again() {
  phase_ = Phase::waiting;
  when_ = {};
  deadline_ = granted_at_ = no_deadline;
  say(Note::too_late);
  act(Do::queue_again);
}

void Policy::on(const event::Kept& e, Deadline) {
  if (lost_) {  // the latch: the job is being ended; the store still keeps others out a little longer
    deadline_ = std::max(deadline_, e.deadline);
    return;
  }
  set_lease(e.deadline);
  if (job_may_live()) act(Do::send_deadlines);
}

// As if the user had sent TERM, once: the job may take it as it likes, until --kill-after.
void Policy::on(const event::Revoked&, Deadline now) {
  if (std::exchange(revoked_, true)) return;
  const bool running = phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::descendants;
  if (running) say(Note::revoked);
  if (running || phase_ == Phase::lingering) on(event::Signal{SIGTERM, false}, now);
}

void Policy::on(const event::KeeperLost&, Deadline now) {
  if (job_may_live()) {
    when_.term_at = now;
    if (rules_.kill_when_lost) when_.kill_at = std::min(when_.kill_at, later(now, rules_.timing.kill_after));
    deadline_ = std::min(deadline_, when_.kill_at);
    act(Do::send_deadlines);  // the guard answers `expired`
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

void Policy::on(const event::WaitEnded& e, Deadline) {
  if (phase_ == Phase::leaving && leave_signal_ != 0) return end({true, leave_signal_, "signal"});
  if (phase_ == Phase::waiting || phase_ == Phase::leaving)
    end({false, guard_failed_ ? status_bug : e.status, e.busy ? "busy" : "error"});
}

void Policy::on(const event::WaitLeft&, Deadline) {
  if (phase_ == Phase::leaving)
    end(leave_signal_ != 0 ? Outcome{true, leave_signal_, "signal"} : Outcome{false, status_bug, "error"});
}

// ---- the user's signals ----------------------------------------------------------------------------------------------

void Policy::on(const event::Signal& e, Deadline now) {
  switch (phase_) {
    case Phase::waiting:
      if (stops(e.number)) return act(Do::stop_self, e.number);
      if (ignored_by_default(e.number)) return;
      leave_signal_ = e.number;
      phase_ = Phase::leaving;
      step_by_ = later(now, rules_.timing.op_timeout);
      return act(Do::leave_queue);
    case Phase::leaving:
      if (ends(e.number)) end({true, e.number, "signal"});
      return;
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: return forward(e, now);
    case Phase::lingering:
      if (ends(e.number)) release(now);
      return;
    case Phase::detaching:
    case Phase::releasing:
      if (!ends(e.number)) return;
      say(Note::not_released);
      return end(result());
    case Phase::own_sweep:
    case Phase::over: return;
  }
}

void Policy::forward(const event::Signal& e, Deadline now) {
  const bool ending = ends(e.number);
  if (ending && e.number == last_end_ && now - ended_at_ < same_request) return;
  // One that the terminal raised went to the whole group, the job too. Before `started` the job may have missed it: twice
  // rather than never.
  const bool of_terminal = rules_.same_group && e.from_kernel;
  // When a terminal hangs up, the kernel tells the leader of the session alone.
  const bool told_us_alone = e.number == SIGHUP && rules_.session_leader;
  const bool job_has_it = of_terminal && phase_ != Phase::starting && !told_us_alone;
  if (!job_has_it) act(phase_ == Phase::descendants ? Do::signal_all : Do::send_signal, e.number);
  // A terminal's Ctrl-C is the job's to interpret: a database shell lives on. A HUP that a process sent means "reload".
  const bool asks_to_end = e.number == SIGHUP ? e.from_kernel : ending && !of_terminal;
  if (!asks_to_end) return;
  when_.stop_by = last_end_ != 0 ? now : std::min(when_.stop_by, later(now, rules_.timing.kill_after));
  last_end_ = e.number;
  ended_at_ = now;
  act(Do::send_deadlines);
}

// ---- the job ---------------------------------------------------------------------------------------------------------

void Policy::on(const event::JobStarted&, Deadline now) {
  if (phase_ != Phase::starting) return;
  phase_ = Phase::running;
  if (rules_.max_run > 0us) max_run_at_ = later(now, rules_.max_run);
}

void Policy::on(const event::StartFailed& e, Deadline) {
  start_failed_ = true;
  exec_error_ = e.error;
}

void Policy::on(const event::StartRefused&, Deadline now) {
  if (phase_ != Phase::starting) return;
  const int asked_to_end = last_end_;
  last_end_ = 0;
  queue_again();
  if (asked_to_end != 0) on(event::Signal{asked_to_end, false}, now);
}

void Policy::on(const event::ExecFailed& e, Deadline) { exec_error_ = e.error; }

void Policy::on(const event::JobStopped& e, Deadline) {
  if (!rules_.same_group || phase_ == Phase::descendants || !job_may_live()) return;
  if (!e.orphaned) return act(Do::stop_self, e.signal);  // a shell must see us stopped where it would see the job stopped
  // Nobody could continue us. The kernel would have dropped a TSTP and failed the terminal access with EIO.
  if (e.signal == SIGTTIN || e.signal == SIGTTOU) act(Do::send_signal, SIGHUP);
  if (e.signal != SIGSTOP) act(Do::send_signal, SIGCONT);
}

void Policy::on(const event::JobExited& e, Deadline now) {
  status_ = e.status;
  if (phase_ != Phase::starting && phase_ != Phase::running) return;
  phase_ = Phase::descendants;
  next_word_ = later(now, first_word);
  if (rules_.descendants == Descendants::kill && exec_error_ == 0) end_job(now);
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
    guard_failed_ = true;
    say(Note::guard_died);
    phase_ = Phase::leaving;
    step_by_ = later(now, rules_.timing.op_timeout);
    return act(Do::leave_queue);
  }
  if (!job_may_live() || phase_ == Phase::own_sweep) return;
  guard_gone_ = guard_failed_ = true;
  say(Note::guard_died);
  if (now >= when_.kill_at) on(event::Expired{}, now);
  phase_ = Phase::own_sweep;  // its death has killed the job; the orphans are ours now
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
    case Phase::leaving:
      return end(leave_signal_ != 0 ? Outcome{true, leave_signal_, "signal"} : Outcome{false, status_bug, "error"});
    case Phase::detaching:
      say(Note::holding);
      phase_ = Phase::lingering;
      return;
    case Phase::lingering: return release(now);
    case Phase::releasing: say(Note::not_released); return end(result());
    case Phase::own_sweep:
    case Phase::starting:
    case Phase::running:
    case Phase::descendants: break;
    case Phase::waiting:
    case Phase::over: return;
  }
  if (now >= next_word_) {
    if (killing_ || phase_ == Phase::own_sweep) say(Note::stuck);
    else if (phase_ == Phase::descendants && rules_.descendants == Descendants::wait) say(Note::descendants);
    next_word_ = killing_ || phase_ == Phase::own_sweep ? later(now, next_word) : no_deadline;
  }
  if ((killing_ || phase_ == Phase::own_sweep) && now >= later(deadline_, grace_to_die)) {
    gave_up_ = true;  // the store has given the lock to others long ago: our staying helps nobody
    return end(result());
  }
  if (phase_ == Phase::own_sweep) {
    if (!lost_ && now >= when_.kill_at) on(event::Expired{}, now);
    step_by_ = later(now, own_sweep_every);
    return act(Do::sweep_own);
  }
  if (now >= max_run_at_) {
    max_run_at_ = no_deadline;
    max_run_over_ = true;
    say(Note::max_run);
    end_job(now);
  }
  // Half a margin late, and not a word that it kills: the guard is stopped or wedged.
  if (!killing_ && !guard_killed_ && now >= later(std::min(when_.kill_at, when_.stop_by), rules_.timing.margin / 2)) {
    guard_killed_ = true;
    act(Do::kill_guard);
  }
}

// ---- the end -----------------------------------------------------------------------------------------------------------

void Policy::give_back(Deadline now) {
  if (lost_) return end(result());  // never release what may be another's
  const bool ran = exec_error_ == 0 && !guard_failed_;
  hold_until_ = ran ? later(granted_at_, rules_.min_hold) : now;
  if (hold_until_ <= now) return release(now);
  if (rules_.can_detach) {
    phase_ = Phase::detaching;
    step_by_ = later(now, rules_.timing.op_timeout);
    actions_.push_back({Do::detach, 0, std::chrono::duration_cast<Duration>(hold_until_ - now), {}, {}});
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
  step_by_ = later(now, rules_.timing.op_timeout);
  act(Do::release);
}

void Policy::on(const event::ReleaseDone& e, Deadline) {
  if (phase_ != Phase::releasing) return;
  if (!e.confirmed) say(Note::not_released);
  end(result());
}

Outcome Policy::result() const noexcept {
  if (gave_up_) return {false, status_failed_holding, "failed"};
  if (lost_) return {false, status_lost, "lost"};
  if (guard_failed_ || start_failed_) return {false, status_failed_holding, "failed"};
  if (exec_error_ != 0) return {false, exec_error_ == ENOENT ? status_not_found : status_cannot_execute, "not_started"};
  if (max_run_over_) return {false, status_max_run, "max_run"};
  if (status_ < 0) return {false, status_failed_holding, "failed"};
  if (WIFSIGNALED(status_)) return {true, WTERMSIG(status_), "signal"};
  return {false, WEXITSTATUS(status_), "command"};
}

void Policy::act(Do what, int number) { actions_.push_back({what, number, {}, {}, {}}); }
void Policy::say(Note note) { actions_.push_back({Do::say, 0, {}, note, {}}); }
void Policy::end(Outcome o) {
  phase_ = Phase::over;
  actions_.push_back({Do::end, 0, {}, {}, o});
}
bool Policy::job_may_live() const noexcept {
  return phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::descendants || phase_ == Phase::own_sweep;
}

}  // namespace dlock::run
