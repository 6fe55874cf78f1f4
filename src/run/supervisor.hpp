// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>
#include "job/entry.hpp"
#include "job/inner_holds.hpp"
#include "job/message.hpp"
#include "job/process.hpp"
#include "job/signals.hpp"
#include "job/timer.hpp"
#include "report/announcer.hpp"
#include "report/metrics.hpp"
#include "report/outcome.hpp"
#include "report/output.hpp"
#include "run/jobless_hold.hpp"
#include "run/keeper.hpp"
#include "run/policy.hpp"

namespace dlock::run {

// The main thread of dlock while it waits and holds, with a job or without. In each turn it
// collects the events of Keeper, user and guard, lets Policy decide with one reading of the clock,
// and carries out the actions. It calls no client library, and each of its waits has a bound. No
// other thread forks, waits for children or sends signals.
class Supervisor {
 public:
  // With a job, pass a guard and no JoblessHold. Without a job, pass a JoblessHold and no guard.
  Supervisor(const Plan&, const Entry&, const PreexistingProcesses&, Output&, Channel guard,
             pid_t guard_pid, InnerHolds&, JoblessHold*);
  ~Supervisor() = delete;
  FailedCall failed() const;  // if a call failed, do not call run(): it would never return
  Outcome run();

 private:
  void turn();
  std::vector<Event> gather(Deadline now);
  void from_keeper(std::vector<Event>&, Deadline now);
  void from_user(std::vector<Event>&);
  void from_watched(std::vector<Event>&);
  void from_guard(std::vector<Event>&);
  void step(const Event&, Deadline now);
  void stop();
  void reap_others() const;
  void perform(const Action&);
  void start_job();
  FailedCall order_start();
  void hand_over();
  bool can_be_ended() const;  // only without a job: whether JoblessHold may ask for the end
  std::optional<Owner> held_by() const;
  bool foreign(pid_t child) const;
  void sweep_own();
  void reap_guard();
  void dismiss_guard();
  std::vector<pid_t> job_members() const;
  void end(Outcome);

  const Plan& plan_;
  const Entry& entry_;
  const PreexistingProcesses& preexisting_;
  Channel guard_;
  const pid_t guard_pid_;
  Output& output_;
  const bool same_group_;
  const TerminalModes modes_;
  int watch_;  // Plan::watched; -1 after that process ended
  IncomingSignals signals_;
  Timer timer_;
  Keeper& keeper_;
  Announcer announcer_;
  Metrics& metrics_ = *new Metrics(plan_);
  Policy policy_;
  std::vector<Lease> leases_;
  std::vector<Fd> holds_;             // Acquired::holds; empty after they went to the guard
  InnerHolds& inner_;                 // keeps the locks of runs in the job if the guard dies
  JoblessHold* const hold_;           // null: there is a job
  Deadline thread_at_ = no_deadline;  // when the Keeper gets its thread
  bool guard_reaped_;                 // true also if there is no guard
  std::uint64_t guard_started_ = 0;   // clock ticks since boot; known when the guard is dead
  int stop_by_ = 0;                   // the signal to send ourselves at the end of this turn
  Outcome outcome_{};
};

// Makes a Supervisor and runs it to its end. Returns at once if an output file cannot be opened, or
// if a necessary system call failed; it has then printed a message.
Outcome supervise(const Plan&, const Entry&, const PreexistingProcesses&, Output&, Channel guard,
                  pid_t guard_pid, InnerHolds&, JoblessHold*);

}  // namespace dlock::run
