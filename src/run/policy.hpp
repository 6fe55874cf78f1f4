// SPDX-License-Identifier: Apache-2.0
// Makes every decision of `dlock run` and `dlock acquire`: step(event, now) returns actions. Policy
// is pure: it has no clock, no descriptor and no process, and it cannot fail. The Supervisor calls
// it on the main thread, and carries out the actions in their order.
#pragma once
#include <optional>
#include <utility>
#include <variant>
#include "report/outcome.hpp"
#include "run/event.hpp"
#include "run/plan.hpp"
#include "run/timing.hpp"
#include "run/wait_end.hpp"

namespace dlock::run {

enum class JobGroup { own, dlocks };        // the process group of the job
enum class SessionRole { member, leader };  // the role of dlock in its session

class Policy {
 public:
  explicit Policy(const Plan& plan, JobGroup group = JobGroup::own,
                  SessionRole role = SessionRole::member)
      : plan_(plan),
        same_group_(group == JobGroup::dlocks),
        session_leader_(role == SessionRole::leader),
        wait_(wait_rules(plan)),
        watchdog_(plan.timing.margin) {}

  Actions step(const Event&, Deadline now);
  Deadline wake_at() const noexcept;  // when the next Tick is due; no_deadline: never
  const GuardDeadlines& deadlines() const noexcept { return when_; }
  bool waiting() const noexcept { return phase_ == Phase::waiting; }
  // Returns whether dlock holds the lock without a job.
  bool holding() const noexcept { return phase_ == Phase::holding; }
  bool over() const noexcept { return phase_ == Phase::over; }
  // Returns whether dlock has no pending work, so that it may stop together with the job.
  bool may_stop() const noexcept;
  // Returns whether members of the job still live and the guard goes on without dlock.
  bool abandoned() const noexcept { return gave_up_; }
  // Returns whether dlock ended the job, which may have left the terminal in another mode.
  bool killed() const noexcept { return killing_ || lost_ || guard_failed_; }

 private:
  enum class Phase {
    waiting,
    leaving,
    holding,
    starting,
    running,
    descendants,
    own_sweep,
    detaching,
    lingering,
    releasing,
    over
  };

  template <class... Kinds>
  void on(const std::variant<Kinds...>& e, Deadline now) {
    std::visit([&](const auto& what) { on(what, now); }, e);
  }
  void on(const event::WaitBegan&, Deadline) {}
  void on(const event::StillWaiting&, Deadline) {}
  void on(const event::NoAnswer&, Deadline) {}
  void on(const event::Acquired&, Deadline now);
  void on(const event::HandedOver&, Deadline now);
  void on(const event::EndRequested&, Deadline now);
  void on(const event::Renewed&, Deadline);
  void on(const event::Revoked&, Deadline now);
  void on(const event::RenewFailed&, Deadline) {}
  void on(const event::KeeperLost&, Deadline now);
  void on(const event::WaitEnded&, Deadline);
  void on(const event::WaitLeft&, Deadline);
  void on(const event::ReleaseDone&, Deadline);
  void on(const event::DetachDone&, Deadline now);
  void on(const event::Signal&, Deadline now);
  void on(const event::JobStarted&, Deadline now);
  void on(const event::StartFailed&, Deadline now);
  void on(const event::StartRefused&, Deadline now);
  void on(const event::ExecFailed&, Deadline);
  void on(const event::JobStopped&, Deadline);
  void on(const event::JobContinued&, Deadline);
  void on(const event::JobExited&, Deadline now);
  void on(const event::MaxRunOver&, Deadline now);
  void on(const event::Expired&, Deadline);
  void on(const event::Killing&, Deadline now);
  void on(const event::TreeDead&, Deadline now);
  void on(const event::TreeLeft&, Deadline now);
  void on(const event::GuardGone&, Deadline now);
  void on(const event::OwnSweepDone&, Deadline now);
  void on(const event::Tick&, Deadline now);

  void act(Action what) { actions_.push_back(std::move(what)); }
  void announce(Note note) { act(action::Announce{note}); }
  void set_lease(Deadline deadline);
  void queue_again(Deadline now);
  void leave(Deadline now);
  void end_wait();
  void end_hold(Outcome, Deadline now);
  void lose_hold(Deadline now);
  bool is_repeated(int signal, Deadline now);
  void end_job(Deadline now);
  void forward(const event::Signal&, Deadline now);
  template <class TreeEnd>
  void job_is_over(const TreeEnd&, Deadline now);
  void give_back(Deadline now);  // after the end of the job: detaches, goes on holding, or releases
  void release(Deadline now);
  bool forgets_start() const noexcept;
  Deadline time_to_give_back(Deadline now) const noexcept;
  void end(Outcome);
  bool guarded() const noexcept;
  bool kills_when_lost() const noexcept { return plan_.on_lost.what == OnLost::Do::kill; }
  bool job_may_live() const noexcept { return guarded() || phase_ == Phase::own_sweep; }
  Outcome result() const noexcept;

  const Plan& plan_;
  const bool same_group_, session_leader_;
  WaitEnd wait_;
  GuardWatchdog watchdog_;
  Phase phase_ = Phase::waiting;
  GuardDeadlines when_;
  Deadline deadline_ = no_deadline;  // when the lease ends
  Deadline granted_at_ = no_deadline, hold_until_ = no_deadline;
  Deadline max_run_at_ = no_deadline;
  // When the current phase ends. In Phase::own_sweep: when the next SweepOwn is due.
  Deadline step_by_ = no_deadline;
  Duration sweep_pause_{};            // before the next SweepOwn
  Deadline notice_at_ = no_deadline;  // when the user gets a list of the remaining members
  Deadline ended_at_{};               // when the last ending signal came
  Duration pause_{};                  // of the last QueueAgain
  int last_end_ = 0;                  // the last ending signal
  std::optional<Outcome>
      requested_end_;  // how dlock must end; nullopt: the wait or the job decides
  int status_ = -1, exec_error_ = 0;
  bool lost_ = false, killing_ = false, guard_failed_ = false, start_failed_ = false,
       max_run_over_ = false, revoked_ = false, withdraws_start_ = false, gave_up_ = false;
  Actions actions_;
};

}  // namespace dlock::run
