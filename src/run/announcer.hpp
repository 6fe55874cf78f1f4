// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "run/events.hpp"
#include "run/policy.hpp"
#include "run/waiting_line.hpp"

namespace dlock::run {

// What `dlock run` tells its user about one lock and its job: messages, status lines and history.
// The Supervisor calls it as things happen; it decides nothing, and none of its calls blocks.
class Announcer {
 public:
  Announcer(const Plan&, Events&);

  // The wait.
  void answered(Deadline asked_at, std::optional<HolderView> holder, std::string why);
  void no_answer(std::string why, bool failing, Deadline now);  // failing: no answer of any kind
  void waits(const Waiting&, bool still, Deadline now);         // still: no grant has come since
  void wait_ended(const std::string& message);
  void clear_line() { line_.clear(); }  // of the terminal, before other output

  // The lock.
  void acquired(const Lease&);
  void kept(Deadline lease_end, Deadline now);
  void renewal_failed(const std::string& why, Deadline term_at, Deadline now);
  void keep_reason(std::string why) { reason_ = std::move(why); }  // of a loss or a failed release
  void released(bool confirmed, std::string why);
  void detached(bool confirmed, std::string why);

  // The job.
  void started(int child);
  void start_failed(const std::string& why);
  void exec_failed(int error);
  void ends(int signal);        // the whole tree is sent it
  void of_guard(const Event&);  // its messages, in the order in which they are decided about
  void exit(const Outcome&);

  // members: of the job, for `stuck` and `descendants`.
  void say(Action::Note, const std::vector<pid_t>& members, Deadline now);

 private:
  std::string key() const;
  void confirmed(const char* status, bool confirmed, std::string why);

  const Plan& plan_;
  Events& events_;
  WaitingLine line_;
  std::string reason_;    // the keeper's last one, for the final message
  bool failing_ = false;  // renewals fail at the moment
  bool said_waiting_ = false, expired_ = false;
};

}  // namespace dlock::run
