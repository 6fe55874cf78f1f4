// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "report/output.hpp"
#include "report/wait_line.hpp"
#include "run/policy.hpp"

namespace dlock::run {

// Returns whether the waiting line is redrawn each second. If so, the Keeper should report as
// often.
bool redraws(const Plan&);

// Informs the user about one lock and its job, by messages, status lines and history. On the main
// thread the Supervisor passes to it what happens and what Policy decides. The Announcer decides
// nothing itself. No call blocks or fails.
class Announcer {
 public:
  Announcer(const Plan&, Output&);

  // Call it before `policy` handles the event.
  void report(KeeperEvent&, const Policy& policy, Deadline now);
  void report(const GuardEvent&);
  // members: for Note::stuck and Note::descendants, the remaining members of the job.
  void announce(Note, const std::vector<pid_t>& members, Deadline now);

  void acquired(const Lease&);
  void start_failed(const std::string& why);
  void sends_end(int signal);  // call it when dlock signals the whole tree
  void watched_ended();        // the process of --watch-pid has ended
  void program_ended(const ProgramEnded&);
  void job_is_dead();
  void exit(const Outcome&);
  void clear_line() { wait_line_.clear(); }  // call it before other output

 private:
  // Prints a message that begins with the key.
  void inform(std::string_view what);
  void error(std::string_view what);

  void still_waiting(const Waiting&, Deadline now);
  void unreachable(const std::string& why, Deadline now);
  void show(const std::string& why, const std::string& position = {});
  void wait_is_over(Note, Deadline now);
  void renewal_failed(const std::string& why, Deadline term_at, Deadline now);
  void lost();
  void not_released();

  const Plan& plan_;
  Output& output_;

  // About the wait.
  WaitLine wait_line_;
  bool has_reported_waiting_ = false;
  // failing_since_: since when requests fail; no_deadline: the last report was a reply of the
  // store. next_failing_: when a failure may be shown again.
  Deadline failing_since_ = no_deadline, next_failing_{};
  Waiting answer_{};  // the store's last reply
  std::string no_answer_;

  std::string reason_;    // why the lock was lost or not released, as the Keeper reported it
  bool failing_ = false;  // the last renewal failed
  bool expired_ = false;
};

}  // namespace dlock::run
