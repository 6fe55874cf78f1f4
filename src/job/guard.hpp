// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>
#include "core/key.hpp"
#include "job/backstop.hpp"
#include "job/child.hpp"
#include "job/entry.hpp"
#include "job/inner_holds.hpp"
#include "job/job_cgroup.hpp"
#include "job/job_options.hpp"
#include "job/message.hpp"
#include "job/process.hpp"
#include "job/timer.hpp"

namespace dlock::run {

// What a guard needs to know about the lock.
struct GuardedLock {
  Key key;
  Duration ttl{}, kill_after{};
};

// The job's parent, a separate process that run() forks before any thread or library exists. Its
// first task is to end the tree when a deadline passes or when dlock is gone. It is in the session
// of the job, but neither users nor terminals send signals to its group. It blocks every signal, so
// it can always act on time. It is the subreaper of the whole tree, so it inherits every orphan. It
// exits only when no member of the job is left; with --descendants=release also when the program
// has ended.
//
// Its second task is to hold a duplicate of each descriptor whose last close would end the lock. So
// the lock does not end before the tree does. The guard also holds the locks of runs inside the
// job, and the guards of the runs around it hold its lock, too.
//
// Before there is a job, the guard opens everything that it needs to end the tree. So it works even
// when the system is out of descriptors. If it cannot open everything, there is no job.
class Guard {
 public:
  Guard(Channel channel, const Entry& entry, const JobOptions& options, GuardedLock lock,
        InnerHolds& inner)
      : channel_(std::move(channel)),
        entry_(entry),
        options_(options),
        lock_(std::move(lock)),
        inner_(inner) {}
  [[noreturn]] void run();

 private:
  void report(const GuardEvent& e) { channel_.send(e); }
  void show_itself();
  void obey(Channel::Received&);
  void receive_holds(Channel::Received&);
  void give_up_holds();
  void start_job(const order::Start&, const Channel::Received&);
  [[noreturn]] void cannot_start(const FailedCall&);
  void set_deadlines(const GuardDeadlines&);
  bool end_requested() const;
  bool has_left_members() const;
  void read_exec_outcome();
  void report_exit();
  void signal_job(int signal) const;
  enum class Stopped { go_on, stay };
  void signal_tree(int signal, Stopped = Stopped::go_on) const;
  Deadline stop_by() const { return std::min(when_.stop_by, run_stop_by_); }
  void check_deadlines(Deadline now);
  void check_max_run(Deadline now);
  void lose(Deadline now);
  void arm_backstop();
  void wake_orphans();
  void start_sweep();
  bool reap();
  void sweep_while_anything_changes(bool& alive);
  [[noreturn]] void leave();
  [[noreturn]] void leave_members();
  [[noreturn]] void leave(const GuardEvent& last);

  Channel channel_;
  const Entry& entry_;
  const JobOptions& options_;
  const GuardedLock lock_;
  InnerHolds& inner_;
  // A copy of the job's command, because the original memory now contains our process title. The
  // copy must not change before a child's exec, because the child shares our memory (start_child).
  std::vector<std::string> command_;
  std::optional<Child> job_child_, helper_child_;
  std::string changes_;  // the changes to the environment
  std::vector<char*> environment_;
  const OwnChildren children_;
  FailedCall failed_;  // the first failed call among those that the guard depends on
  Timer timer_;
  JobCgroup cgroup_;
  std::optional<Backstop> backstop_;  // exists from the start of the job
  GuardDeadlines when_;
  Deadline run_until_ = no_deadline, run_stop_by_ = no_deadline;  // from --max-run
  Fd child_signal_, exec_error_;
  std::vector<Fd> holds_;
  OuterHolders outer_;
  const pid_t dlock_ = ::getppid();
  pid_t job_ = 0, group_ = 0;
  pid_t helper_ = 0;  // the command of --on-lost, and its process group
  Deadline helper_until_ = no_deadline;
  int status_ = -1;
  bool stopped_ = false, was_orphaned_ = false;
  bool own_group_ = false, leader_alive_ = false, expired_ = false, sweeping_ = false,
       lacks_holds_ = false;
};

}  // namespace dlock::run
