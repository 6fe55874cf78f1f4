// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "run/cgroup.hpp"
#include "run/entry.hpp"
#include "run/message.hpp"
#include "run/plan.hpp"
#include "run/timer.hpp"

namespace dlock::run {

// The job's parent: a process of its own, forked before any thread or library exists, that knows deadlines and nothing else.
// It is in the session of the job but in no group that a user signals, blocks every signal, and is the subreaper of
// the whole tree; so it can always act on time, and it sees every orphan. It ends the tree when a deadline passes or when
// dlock is gone, and it exits only when nobody is left.
//
// Holding `hold_fd` is the other half of its job: a lock that ends with a descriptor does not end before the tree.
class Guard {
 public:
  Guard(Channel channel, const Entry& entry, char* const* command, int end_signal, const OnLost& on_lost)
      : channel_(std::move(channel)), entry_(entry), command_(command), end_signal_(end_signal), on_lost_(on_lost) {}
  [[noreturn]] void run();

 private:
  void tell(Kind kind, int value = 0) const { channel_.send({kind, value, false, {}}); }
  void on_message(const Channel::Received&);
  void start_job(const Channel::Received&);
  [[noreturn]] void cannot_start(int error);
  [[noreturn]] void become_job(pid_t guard, int error_pipe);
  void read_exec_outcome();
  void signal_job(int signal) const;
  void check_deadlines(Deadline now);
  void lose(Deadline now);
  void wake_orphans();
  void start_sweep();
  bool reap();
  void sweep_while_anything_changes(bool& alive);
  [[noreturn]] void leave();

  Channel channel_;
  const Entry& entry_;
  char* const* command_;
  const int end_signal_;
  const OnLost& on_lost_;
  Timer timer_;
  JobCgroup cgroup_;
  GuardDeadlines when_;
  Fd child_signal_, exec_error_, hold_;
  const pid_t dlock_ = ::getppid();
  pid_t job_ = 0, group_ = 0;
  pid_t helper_ = 0;  // the command of --on-lost, and its group
  Deadline helper_until_ = no_deadline;
  int status_ = -1;
  bool stopped_ = false, was_orphaned_ = false;
  bool own_group_ = false, leader_alive_ = false, expired_ = false, sweeping_ = false;
};

}  // namespace dlock::run
