// SPDX-License-Identifier: Apache-2.0
// Every decision of `dlock run`, without a clock, a descriptor or a process: step(event, now) ->
// actions. The supervisor collects events, calls it, and carries out the actions.
#pragma once
#include <variant>
#include <vector>
#include "run/outcome.hpp"
#include "run/plan.hpp"
#include "run/wait_end.hpp"

namespace dlock::run {

namespace event {
// from the keeper
struct WaitBegan {
  Deadline at;
};  // the store is asked from then on
struct Answered {
  Deadline asked_at;
};                       // the store says that others have the lock
struct NoAnswer {        // the store is unreachable at the moment, or
  bool reached = false;  // it answered that it grants nothing now: its grace after a restart
};
struct Granted {
  Deadline deadline;
};  // no_deadline: attached
struct Kept {
  Deadline deadline;
};
struct Revoked {};  // this holder was asked to stop (revoke)
struct KeeperLost {};
struct WaitEnded {
  int status;
  bool busy;
};                   // busy, unreachable, denied...: nothing is held
struct WaitLeft {};  // answer to leave_queue
struct ReleaseDone {
  bool confirmed;
};
struct DetachDone {
  bool confirmed;
};
// from the user
struct Signal {
  int number;
  bool from_kernel;
};
// from the guard
struct JobStarted {};
struct StartFailed {
  int error;
};
struct StartRefused {};
struct ExecFailed {
  int error;
};
struct JobStopped {
  int signal;
  bool orphaned;
};  // orphaned: no process could continue our group if it stopped
struct JobContinued {};
struct JobExited {
  int status;
};
struct MaxRunOver {};  // the job was sent its end signal
struct Expired {};
struct Killing {};
struct TreeDead {
  int status;
  bool expired;
};
struct GuardGone {};
struct OwnSweepDone {};  // after sweep_own: no child of the guard's tree is left
struct Tick {};          // wake_at() has been reached
}  // namespace event

using Event = std::variant<
    event::WaitBegan, event::Answered, event::NoAnswer, event::Granted, event::Kept, event::Revoked,
    event::KeeperLost, event::WaitEnded, event::WaitLeft, event::ReleaseDone, event::DetachDone,
    event::Signal, event::JobStarted, event::StartFailed, event::StartRefused, event::ExecFailed,
    event::JobStopped, event::JobContinued, event::JobExited, event::MaxRunOver, event::Expired,
    event::Killing, event::TreeDead, event::GuardGone, event::OwnSweepDone, event::Tick>;

struct Action {
  enum class Do {
    start_job,       // with deadlines(), the environment and the descriptor to hold
    send_deadlines,  // deadlines() to the guard
    send_signal,     // number, to the job's group
    signal_all,      // number, to the whole tree
    kill_guard,      // it did not act on time: KILL it, its tree becomes ours
    // kill our own (adopted) children once; answered by OwnSweepDone when none is left
    sweep_own,
    stop_self,    // number: stop as the job was stopped; 0: do not, it goes on
    leave_queue,  // answer WaitLeft, soon
    // release a late grant and wait again after `span`; answered by Granted or WaitEnded
    queue_again,
    withdraw_start,  // --once-per: before release or detach, the noted start no longer counts
    release,         // answer ReleaseDone; outcome: how the job ended, if there was one
    // let the lock last for `span` without us; answered by DetachDone; outcome as for release
    detach,
    say,  // note, for messages and events
    end,  // outcome: over
  };
  enum class Note {
    busy,
    silent,
    lost,
    stuck,
    descendants,
    holding,
    not_released,
    guard_died,
    no_guard,
    max_run,
    too_late,
    revoked
  };
  Do what;
  int number = 0;
  Duration span{};
  Note note{};
  Outcome outcome{};
};
using Actions = std::vector<Action>;

class Policy {
 public:
  struct Rules {
    Timing timing;
    WaitEnd::Rules wait;
    int conflict_status = 75;
    bool same_group = false;
    bool session_leader = false;  // dlock is
    int end_signal = SIGTERM;
    Duration max_run{}, min_hold{};
    Descendants descendants = Descendants::wait;
    bool can_detach = false;
    bool until_success = false;  // a command that failed withdraws its --once-per start
    bool kill_when_lost = true;  // false: --on-lost says otherwise
    // keys: when one is lost, the others are held and are to be released
    bool several = false;
  };
  explicit Policy(const Rules& rules)
      : rules_(rules), wait_(rules.wait), second_line_(rules.timing.margin) {}

  Actions step(const Event&, Deadline now);
  Deadline wake_at() const noexcept;  // no_deadline: only events matter
  const GuardDeadlines& deadlines() const noexcept { return when_; }
  bool waiting() const noexcept { return phase_ == Phase::waiting; }
  bool over() const noexcept { return phase_ == Phase::over; }
  bool may_stop() const noexcept;  // dlock itself: there is nothing that it has to do
  // members of the job still live, and the guard stays with them
  bool abandoned() const noexcept { return gave_up_; }
  // dlock ended the job: restore the terminal
  bool killed() const noexcept { return killing_ || lost_ || guard_gone_; }

 private:
  enum class Phase {
    waiting,
    leaving,
    starting,
    running,
    descendants,
    own_sweep,
    detaching,
    lingering,
    releasing,
    over
  };

  void on(const event::WaitBegan&, Deadline now);
  void on(const event::Answered&, Deadline now);
  void on(const event::NoAnswer&, Deadline now);
  void on(const event::Granted&, Deadline now);
  void on(const event::Kept&, Deadline now);
  void on(const event::Revoked&, Deadline now);
  void on(const event::KeeperLost&, Deadline now);
  void on(const event::WaitEnded&, Deadline now);
  void on(const event::WaitLeft&, Deadline now);
  void on(const event::ReleaseDone&, Deadline now);
  void on(const event::DetachDone&, Deadline now);
  void on(const event::Signal&, Deadline now);
  void on(const event::JobStarted&, Deadline now);
  void on(const event::StartFailed&, Deadline now);
  void on(const event::StartRefused&, Deadline now);
  void on(const event::ExecFailed&, Deadline now);
  void on(const event::JobStopped&, Deadline now);
  void on(const event::JobContinued&, Deadline now);
  void on(const event::JobExited&, Deadline now);
  void on(const event::MaxRunOver&, Deadline now);
  void on(const event::Expired&, Deadline now);
  void on(const event::Killing&, Deadline now);
  void on(const event::TreeDead&, Deadline now);
  void on(const event::GuardGone&, Deadline now);
  void on(const event::OwnSweepDone&, Deadline now);
  void on(const event::Tick&, Deadline now);

  void act(Action::Do what, int number = 0);
  void say(Action::Note);
  void set_lease(Deadline deadline);
  void queue_again(Deadline now);
  void leave(Deadline now);
  void end_wait();
  bool same_again(int signal, Deadline now);
  void end_job(Deadline now);
  void forward(const event::Signal&, Deadline now);
  void give_back(Deadline now);  // the tree is dead: detach, go on holding or release
  void release(Deadline now);
  Deadline time_to_give_back(Deadline now) const noexcept;
  void end(Outcome);
  bool job_may_live() const noexcept;
  Outcome result() const noexcept;

  const Rules rules_;
  WaitEnd wait_;
  SecondLine second_line_;
  Phase phase_ = Phase::waiting;
  GuardDeadlines when_;
  Deadline deadline_ = no_deadline;  // of the lease
  Deadline granted_at_ = no_deadline, hold_until_ = no_deadline;
  Deadline max_run_at_ = no_deadline;
  Deadline step_by_ = no_deadline;    // bound of the current phase
  Deadline next_word_ = no_deadline;  // when to name the remaining members
  Deadline ended_at_{};               // last ending signal
  Duration pause_{};                  // before the last queue_again
  int last_end_ = 0, leave_signal_ = 0;
  int status_ = -1, exec_error_ = 0;
  bool lost_ = false, killing_ = false, guard_gone_ = false, guard_failed_ = false,
       start_failed_ = false, max_run_over_ = false, revoked_ = false, withdraws_ = false;
  bool gave_up_ = false;
  Actions actions_;
};

}  // namespace dlock::run
