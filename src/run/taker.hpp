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
#include "run/outcome.hpp"
#include "run/timer.hpp"
#include "run/waiting_line.hpp"

namespace dlock::run {

// The main thread of a process that acquires a lock without a command: waits, prints the grant, and
// holds for as long as asked.
class Taker {
 public:
  struct Staying {
    bool at_all = false;            // hold after the grant
    bool until_stdin_ends = false;  // --hold
    int watch = -1;                 // a pidfd; readable: the watched process has ended
    Duration max_hold{};            // 0: no limit
    int listener = -1;              // of keeper_socket
    // readable before the grant: the process that waits for it has ended
    int asker = -1;
  };
  Taker(const Plan&, const Entry&, Events&,
        const std::function<bool(const std::vector<Lease>&)>& on_granted, Staying);
  ~Taker() = delete;
  Outcome run();

 private:
  void on(const Keeper::Began& b, Deadline) { wait_.begin(b.at); }
  void on(const Waiting& w, Deadline now);
  void on(Keeper::Answered&, Deadline);
  void on(Keeper::NoAnswer&, Deadline);
  void on(Keeper::Granted&, Deadline);
  void on(const Keeper::Kept&, Deadline);
  void on(const Keeper::RenewFailed&, Deadline);
  void on(const Keeper::Gone& g, Deadline now) { lose(g.why, now); }
  void on(const Keeper::Ended&, Deadline);
  void on(const Keeper::Left&, Deadline now) { left(now); }
  void on(const Keeper::Released&, Deadline);
  void on(const Keeper::Detached&, Deadline) {}
  void on_signal(int signal, Deadline);
  void on_question(Deadline);
  void caller_is_gone(Deadline);
  bool waits() const noexcept { return !asked_ && !granted_; }
  void leave(Outcome, Deadline);
  void left(Deadline);
  void give_back(Outcome, Deadline);
  void lose(const std::string& why, Deadline now);
  void lease_deadline(Deadline);
  void end(Outcome);
  bool stdin_ended();

  const Plan& plan_;
  Events& events_;
  const std::function<bool(const std::vector<Lease>&)>& on_granted_;
  const Staying stays_;
  IncomingSignals signals_;
  Timer timer_;
  Keeper& keeper_;
  WaitingLine waiting_line_;
  Outcome outcome_{};
  std::optional<KeeperQuestion> question_;
  Owner owner_{};  // of the grant
  Deadline lost_at_ = no_deadline, answer_by_ = no_deadline, hold_until_ = no_deadline;
  WaitEnd wait_;
  int last_signal_ = 0;
  Deadline last_signal_at_{};
  bool granted_ = false, holding_ = false, asked_ = false, leaving_ = false, wait_over_ = false,
       over_ = false;
};

}  // namespace dlock::run
