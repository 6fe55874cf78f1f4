// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "report/output.hpp"
#include "report/wait_line.hpp"
#include "run/policy.hpp"

namespace dlock::run {

// Whether the line of a wait is drawn again and again, so that news is wanted each second.
bool redraws(const Plan&);

// Informs the user about one lock and its job: messages, status lines and history. The Supervisor
// passes it what happens and what Policy decides; it decides nothing, and none of its calls blocks.
class Announcer {
 public:
  Announcer(const Plan&, Output&);

  // `policy`: before it knows of the event.
  void report(KeeperEvent&, const Policy& policy, Deadline now);
  void report(const GuardEvent&);
  // members: of the job, for `stuck` and `descendants`.
  void announce(Note, const std::vector<pid_t>& members, Deadline now);

  void acquired(const Lease&);
  void start_failed(const std::string& why);
  void sends_end(int signal);  // to the whole tree
  void watched_ended();        // the process of --watch-pid
  void program_ended(const ProgramEnded&);
  void job_is_dead();
  void exit(const Outcome&);
  void clear_line() { wait_line_.clear(); }  // before other output

 private:
  // About the key.
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

  // The wait.
  WaitLine wait_line_;
  bool has_reported_waiting_ = false;
  // no_deadline: the last report was an answer
  Deadline failing_since_ = no_deadline, next_failing_{};
  Waiting answer_{};  // the last one that the store gave
  std::string no_answer_;

  std::string reason_;    // the keeper's last one, for the final message
  bool failing_ = false;  // renewals fail at the moment
  bool expired_ = false;
};

}  // namespace dlock::run
