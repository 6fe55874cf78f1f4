// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "run/output.hpp"
#include "run/policy.hpp"
#include "run/waiting_line.hpp"

namespace dlock::run {

// Informs the user about one lock and its job: messages, status lines and history. The Supervisor
// passes it what happens and what Policy says; it decides nothing, and none of its calls blocks.
class Announcer {
 public:
  Announcer(const Plan&, Output&);

  // `policy`: before it knows of the event.
  void report(KeeperEvent&, const Policy& policy, Deadline now);
  void report(const GuardEvent&);
  // members: of the job, for `stuck` and `descendants`.
  void say(Action::Note, const std::vector<pid_t>& members, Deadline now);

  void acquired(const Lease&);
  void start_failed(const std::string& why);
  void sends_end(int signal);  // to the whole tree
  void exit(const Outcome&);
  void clear_line() { line_.clear(); }  // of the terminal, before other output

 private:
  std::string key() const;
  bool has_job() const noexcept { return plan_.command != nullptr; }
  void renewal_failed(const std::string& why, Deadline term_at, Deadline now);
  void lost();
  void not_released();

  const Plan& plan_;
  Output& output_;
  WaitingLine line_;
  std::string reason_;    // the keeper's last one, for the final message
  bool failing_ = false;  // renewals fail at the moment
  bool said_waiting_ = false, expired_ = false;
};

}  // namespace dlock::run
