// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "run/entry.hpp"
#include "run/events.hpp"
#include "run/keeper.hpp"
#include "run/keeper_socket.hpp"
#include "run/timer.hpp"
#include "run/waiting_line.hpp"

namespace dlock::run {

// The main thread of a process that takes a lock and runs no command: waits, tells of the grant, and holds as long as it is to.
class Taker {
 public:
  struct Staying {
    bool at_all = false;            // hold after the grant
    bool until_stdin_ends = false;  // --hold
    int watch = -1;                 // a pidfd; readable: whoever the lock is for is gone
    Duration max_hold{};            // 0: no limit
    int listener = -1;              // of keeper_socket
    int asker = -1;                 // readable before the grant: whoever waits for it has gone
  };
  Taker(const Plan&, const Entry&, Events&, const std::function<bool(const std::vector<Lease>&)>& on_granted, Staying);
  ~Taker() = delete;
  Outcome run();

 private:
  void on(const Waiting& w, Deadline now) { waiting_line_.update(w, now); }
  void on(Keeper::Granted&, Deadline);
  void on(const Keeper::Kept&, Deadline);
  void on(const Keeper::RenewFailed&, Deadline);
  void on(const Keeper::Gone& g, Deadline) { lose(g.why); }
  void on(const Keeper::Ended&, Deadline);
  void on(const Keeper::Left&, Deadline) { end(outcome_); }
  void on(const Keeper::Released&, Deadline);
  void on(const Keeper::Detached&, Deadline) {}
  void on_signal(int signal, Deadline);
  void on_question(Deadline);
  void caller_is_gone(Deadline);
  void leave(Outcome, Deadline);
  void give_back(Outcome, Deadline);
  void lose(const std::string& why);
  void lease_deadline(Deadline);
  void end(Outcome);
  bool stdin_ended();

  const Plan& plan_;
  Events& events_;
  const std::function<bool(const std::vector<Lease>&)>& on_granted_;
  const Staying stays_;
  Fd signals_;
  Timer timer_;
  Keeper& keeper_;
  WaitingLine waiting_line_;
  Outcome outcome_{};
  std::optional<KeeperQuestion> question_;
  Deadline lost_at_ = no_deadline, answer_by_ = no_deadline, hold_until_ = no_deadline;
  bool holding_ = false, asked_ = false, leaving_ = false, over_ = false;
};

}  // namespace dlock::run
