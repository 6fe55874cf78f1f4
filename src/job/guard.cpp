// SPDX-License-Identifier: Apache-2.0
#include "job/guard.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>
#include "core/text.hpp"
#include "job/signals.hpp"
#include "util/process_title.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr int patience_ms = 50;
constexpr Duration longest_walk = 1s;     // for signalling a tree that grows meanwhile
constexpr Duration longest_move = 250ms;  // for moving the members into another cgroup

}  // namespace

void Guard::run() {
  // The guard has a group of its own, so neither the terminal nor `kill -9 %1` reaches it. setsid
  // would cost the job its terminal.
  ::setpgid(0, 0);
  const auto must = [this](bool good, const char* call) {
    if (!good && !failed_) failed_ = {call, errno};
  };
  must(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl");
  // With this call the kernel continues a stopped guard when dlock dies. The guard must continue,
  // because no other process would end the tree.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  show_itself();
  sigset_t set;
  sigfillset(&set);
  must(::sigprocmask(SIG_SETMASK, &set, nullptr) == 0, "sigprocmask");
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  child_signal_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  must(static_cast<bool>(child_signal_), "signalfd");
  if (timer_.failed() && !failed_) failed_ = timer_.failed();
  // Try these calls while there is no job: with them the guard later ends the job, and proves that
  // it is dead.
  must(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD, "waitpid");
  must(::kill(::getpid(), 0) == 0, "kill");

  // Create the cgroup early, while dlock acquires the lock. If the acquisition takes long, the
  // guard removes the cgroup again, because dlocks that wait should leave no cgroups behind.
  cgroup_ = JobCgroup::create(::getpid());

  for (int pause_ms = 1;; pause_ms = sweeping_ ? std::min(pause_ms * 2, 100) : 1) {
    const short channel_events = channel_.unsent() ? POLLIN | POLLOUT : POLLIN;
    std::vector<pollfd> p{{channel_.fd(), channel_events, 0},
                          {child_signal_.get(), POLLIN, 0},
                          {timer_.fd(), POLLIN, 0},
                          {exec_error_.get(), POLLIN, 0}};
    inner_.watch(p);
    const bool waiting = job_ == 0 && cgroup_;
    const int watch_ms = waiting ? patience_ms : stopped_ ? 1000 : -1;
    const int wait_ms = has_left_members() ? 0 : sweeping_ && job_ > 0 ? pause_ms : watch_ms;
    const int ready = ::poll(p.data(), p.size(), wait_ms);
    if (ready == 0 && waiting) cgroup_.remove();
    if (p[1].revents != 0) {
      signalfd_siginfo s;
      while (::read(child_signal_.get(), &s, sizeof s) > 0) {}
    }
    if (p[2].revents != 0) timer_.drain();
    if (p[3].revents != 0) read_exec_outcome();
    if ((p[0].revents & POLLOUT) != 0) channel_.flush();
    Channel::Received r;
    auto got = Channel::ReceiveResult::nothing;
    while (channel_.open() && (got = channel_.receive(r)) == Channel::ReceiveResult::message)
      obey(r);
    if (got == Channel::ReceiveResult::closed) {  // dlock is dead, or did not start a job
      if (job_ == 0) leave();
      channel_.close();
      start_sweep();
    }
    const Deadline now = Clock::now();
    check_deadlines(now);
    if (has_left_members()) leave_members();
    inner_.serve();
    if (stopped_) wake_orphans();
    const bool job_lived = leader_alive_;
    bool alive = reap();
    if (alive && !has_left_members()) check_max_run(now);
    timer_.arm(sweeping_ || job_ == 0
                   ? no_deadline
                   : std::min({expired_ ? no_deadline : when_.term_at, when_.kill_at, stop_by(),
                               run_until_, helper_until_}));
    arm_backstop();
    if (sweeping_ && alive) sweep_while_anything_changes(alive);
    if (!alive && (job_ > 0 || !channel_.open())) leave();
    // If no process is left, leave() does not return, and its last message reports the status.
    if (job_lived && !leader_alive_) report_exit();
  }
}

// Gives the guard another name, because `pkill -9 dlock`, and `pkill -9 -f` with dlock's command
// line, must not kill both processes.
void Guard::show_itself() {
  for (char* const* word = options_.command; *word; ++word) command_.emplace_back(*word);
  constexpr char name[] = "lock-guard";
  ::prctl(PR_SET_NAME, name);
  set_process_title(std::string(name) + ": " + printable(lock_.key.text()));
}

void Guard::leave() { leave(event::TreeDead{status_, expired_}); }

// Returns whether the program ended by itself under --descendants=release. False if an end was
// requested before: that end applies to the whole tree. False also while a command of --on-lost
// runs, because that command belongs to dlock.
bool Guard::has_left_members() const {
  return options_.descendants == Descendants::release && job_ > 0 && !leader_alive_ &&
         helper_ == 0 && !end_requested();
}

// Called in the turn after the turn that reaped the program. By now the guard has seen all that
// happened before the program ended (an order to end, a deadline, the death of dlock), and none of
// it has set end_requested(). So the backstop did not end the program: it acts only 100 ms after
// such an event.
//
// What happens if other events come at about the same time:
//
// 1. The program ends.  2. dlock dies, an order to end comes or a deadline passes before the next
//    turn of the guard: the whole tree is ended, as if the program lived.
//
// 1. dlock is killed.  2. The program ends.  3. The guard decides here, before the kernel has
//    closed dlock's socket. (The kernel closes the socket when the last thread of dlock has ended,
//    and may continue a stopped guard before that.) What follows is as in the next case.
//
// 1. The guard decides here.  2. dlock dies or a deadline passes: the members live on. The lock is
//    free when the guard exits, or when the lease ends. After the decision, a signal that dlock
//    forwards reaches nobody.
//
// 1. The guard decides here, and may move members out.  2. The guard is killed before its last
//    message. dlock inherits the members, kills them and then releases the lock: status 125.
//
// 1. The guard decides here.  2. Before it calls stand_down(), it does not run for 100 ms, and
//    dlock dies or a deadline passes.  3. The backstop kills members. The lock is safe.
void Guard::leave_members() {
  backstop_->stand_down();
  cgroup_.move_members_out(later(Clock::now(), longest_move));
  leave(event::TreeLeft{status_, expired_});
}

void Guard::leave(const GuardEvent& last) {
  // Do this before dlock releases the lock. From now on only dlock's own descriptors hold it.
  give_up_holds();
  // Only this call waits until it has sent the message: dlock may be stopped with a full queue, but
  // it must get the message. If dlock dies, the call fails at once.
  channel_.send_and_wait(last);
  // This runs while dlock releases the lock. dlock waits for our exit before dlock itself exits.
  cgroup_.remove_after_job();
  ::_exit(0);
}

void Guard::give_up_holds() {
  holds_.clear();
  outer_.job_is_dead();
}

void Guard::obey(Channel::Received& r) {
  if (std::holds_alternative<order::HoldFds>(r.message)) {
    receive_holds(r);
  } else if (const auto* start = std::get_if<order::Start>(&r.message)) {
    receive_holds(r);
    start_job(*start, r);
  } else if (const auto* changed = std::get_if<order::Deadlines>(&r.message)) {
    set_deadlines(changed->when);
  } else if (const auto* signal = std::get_if<order::Signal>(&r.message)) {
    if (signal->whole_tree) signal_tree(signal->number);
    // Once an end was requested, drop signals that would stop the job: a stopped job could not
    // clean up before its end.
    else if (!is_stop_signal(signal->number) || !end_requested()) signal_job(signal->number);
    set_deadlines(signal->when);
  }
}

// Takes new deadlines. A late renewal does not undo a loss, because the job has already got its
// signal.
void Guard::set_deadlines(const GuardDeadlines& when) {
  const Deadline earlier = std::min(when_.kill_at, when.kill_at);
  when_ = expired_ ? GuardDeadlines{when_.term_at, earlier, when.stop_by} : when;
}

void Guard::receive_holds(Channel::Received& r) {
  lacks_holds_ |= r.misses_fds;
  std::move(r.attached.begin(), r.attached.end(), std::back_inserter(holds_));
}

void Guard::start_job(const order::Start& order, const Channel::Received& r) {
  // If a descriptor is missing, a lock could end before the job.
  if (lacks_holds_) return cannot_start({"recvmsg", EMFILE});
  if (failed_)
    return cannot_start(failed_);  // the guard would miss an end, a deadline or an orphan
  if (!children_) return cannot_start({"open", EMFILE});
  if (r.is_truncated) return cannot_start({"execve", E2BIG});
  when_ = order.when;
  if (Clock::now() >= when_.term_at) {  // a suspend lasted beyond the lease
    give_up_holds();
    return report(event::StartRefused{});
  }
  // Do this before there is a job.
  if (const FailedCall call = outer_.hand_over(runs_around(), holds_)) return cannot_start(call);
  changes_ = r.payload;
  environment_ = changed_environment(changes_);
  group_ = order.same_group ? entry_.group() : 0;
  int error[2];
  if (::pipe2(error, O_CLOEXEC) != 0) return cannot_start({"pipe2", errno});
  if (!cgroup_) cgroup_ = JobCgroup::create(::getpid());
  backstop_.emplace(children_, channel_.fd(), cgroup_.kill_fd());
  arm_backstop();
  if (const FailedCall call = backstop_->start()) return cannot_start(call);
  job_child_.emplace(command_, Child::How{environment_.data(), entry_.signals(), group_, error[1]});
  job_ = start_child(*job_child_, cgroup_.fd());
  const int fork_error = errno;
  ::close(error[1]);
  exec_error_.reset(error[0]);
  // If the Backstop's thread reaches the user's limit of processes, clone fails and there is no
  // job. A job without a Backstop would get less than dlock promises, and the user's next process
  // would fail at the same limit.
  if (job_ < 0) return cannot_start({"clone", fork_error});
  if (options_.max_run > 0us) run_until_ = later(Clock::now(), options_.max_run);
  ::setpgid(job_, group_);  // parent and child both call this; after the exec it fails with EACCES
  if (group_ == 0) {
    group_ = ::getpgid(job_);
    own_group_ = group_ == job_;  // false if setpgid was refused
  }
  leader_alive_ = true;
  entry_.close_inherited();
}

bool Guard::end_requested() const {
  return sweeping_ || stop_by() != no_deadline ||
         (expired_ && options_.on_lost.what == OnLost::Do::kill);
}

void Guard::cannot_start(const FailedCall& call) {
  report(event::StartFailed{call.error, call.name});
  leave();
}

// Reads the errno of a failed exec. End of file means that the exec closed the pipe, or that a
// signal ended the child before the exec. The guard polls the pipe, because an exec may hang on a
// dead mount.
void Guard::read_exec_outcome() {
  int e = 0;
  const bool failed = ::read(exec_error_.get(), &e, sizeof e) == static_cast<ssize_t>(sizeof e);
  exec_error_.reset();
  if (failed) return report(event::ExecFailed{e});
  report(event::JobStarted{job_});
}

// By now the orphans of the program are our children; deeper members are their descendants. If the
// members are about to be killed, the message names none, because they keep the lock only for a
// moment.
void Guard::report_exit() {
  event::JobExited exited{status_};
  if (!end_requested()) {
    const std::vector<pid_t> all = children_.list();
    std::copy_n(all.begin(), std::min(all.size(), exited.left.size()), exited.left.begin());
  }
  report(exited);
}

void Guard::arm_backstop() {
  if (backstop_) backstop_->arm(std::min(when_.kill_at, stop_by()));
}

void Guard::check_deadlines(Deadline now) {
  if (job_ == 0) return;
  if (!expired_ && now >= std::min(when_.term_at, when_.kill_at)) {
    expired_ = true;
    report(event::Expired{});
    lose(now);
  }
  if (helper_ > 0 && now >= helper_until_) {
    ::kill(-helper_, SIGKILL);
    helper_until_ = no_deadline;
  }
  if (now >= std::min(when_.kill_at, stop_by())) start_sweep();
}

// The guard enforces --max-run, because dlock may be stopped. It reaps before this check: a tree
// that is dead has not exceeded the limit.
void Guard::check_max_run(Deadline now) {
  if (now < run_until_) return;
  run_until_ = no_deadline;
  if (sweeping_ || expired_) return;
  run_stop_by_ = later(now, lock_.kill_after);
  report(event::MaxRunOver{});
  signal_tree(options_.end_signal);
}

void Guard::lose(Deadline now) {
  if (options_.on_lost.what == OnLost::Do::exec) {
    // The helper is one more member of the tree: dlock waits for it, and the guard kills it with
    // the tree.
    helper_child_.emplace(std::vector<std::string>{"sh", "-c", options_.on_lost.command},
                          Child::How{environment_.data(), entry_.signals(), 0}, "/bin/sh");
    helper_ = start_child(*helper_child_, -1);
    if (helper_ < 0) {  // no process is available: at least the job gets the end signal
      helper_ = 0;
      return signal_tree(options_.end_signal);
    }
    ::setpgid(helper_, helper_);
    helper_until_ = later(now, lock_.ttl);
    return;
  }
  // With --on-lost=signal:SIG the signal only informs the job, so stopped processes stay stopped.
  const bool ends = options_.on_lost.what == OnLost::Do::kill;
  if (ends) signal_tree(options_.end_signal);
  else signal_tree(options_.on_lost.signal, Stopped::stay);
}

void Guard::start_sweep() {
  if (sweeping_) return;
  sweeping_ = true;
  if (job_ > 0) report(event::Killing{});
}

// Reaps all children that have ended. False: waitpid returned ECHILD, the only proof that the tree
// is dead.
bool Guard::reap() {
  for (int status = 0;;) {
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid <= 0) return pid == 0;
    if (pid == helper_ && !WIFSTOPPED(status) && !WIFCONTINUED(status)) {
      helper_ = 0;
      helper_until_ = no_deadline;
    }
    if (pid != job_) continue;
    if (WIFSTOPPED(status)) {
      stopped_ = !own_group_;
      was_orphaned_ = stopped_ && group_is_orphaned(dlock_);
      report(event::JobStopped{WSTOPSIG(status), was_orphaned_});
    } else if (WIFCONTINUED(status)) {
      const bool dlock_stops = std::exchange(stopped_, false);
      report(event::JobContinued{});
      // If the job was continued only so that it can end, leave dlock stopped: its shell shows
      // dlock as stopped until the user types fg.
      if (dlock_stops && !end_requested() && ::getppid() == dlock_) ::kill(dlock_, SIGCONT);
    } else {
      leader_alive_ = stopped_ = false;
      status_ = status;
      if (exec_error_) read_exec_outcome();
    }
  }
}

// Kills without a pause while the members change, so that a process that forks again and again
// gains nothing. Members that do not change are dying, in an uninterruptible state, or not ours to
// kill. The guard signals them again, less and less often. It spares no member, not even nested
// runs, because it holds the locks of nested runs until the tree is dead.
void Guard::sweep_while_anything_changes(bool& alive) {
  std::vector<pid_t> before{0}, now;
  for (; alive; alive = reap()) {
    cgroup_.kill();
    if (own_group_ && leader_alive_) ::kill(-job_, SIGKILL);
    now = children_.list();
    kill_children(now);
    if (now == before) return;
    before.swap(now);
  }
}

// Wakes the stopped job when no process is left that could continue it. Usually the kernel does so,
// with HUP and CONT. But the kernel counts the guard as a process that could continue the job. So a
// job whose shell was killed would stay stopped for ever.
void Guard::wake_orphans() {
  if (was_orphaned_ || !group_is_orphaned(dlock_)) return;
  was_orphaned_ = true;
  ::kill(-group_, SIGHUP);
  ::kill(-group_, SIGCONT);
}

// Delivers a signal that a user sent to dlock. If the job has a group of its own, the signal goes
// to the group, because that is atomic. But when the leader of the group has been reaped, the group
// number may be reused; then the signal goes to the members of our tree in that group. The same
// holds if the job is in dlock's group, because the other programs of a pipeline are in that group,
// too.
void Guard::signal_job(int signal) const {
  if (job_ == 0) return;
  if (own_group_ && leader_alive_) {
    ::kill(-job_, signal);
    return;
  }
  // An interactive shell moves itself to another group.
  if (leader_alive_ && ::getpgid(job_) != group_) ::kill(job_, signal);
  signal_descendants(children_, group_, signal,
                     std::min({when_.kill_at, stop_by(), later(Clock::now(), longest_walk)}));
}

// Signals every member. go_on: also continues stopped members, so that they handle the signal.
void Guard::signal_tree(int signal, Stopped stopped) const {
  const Deadline bound = std::min({when_.kill_at, stop_by(), later(Clock::now(), longest_walk)});
  signal_descendants(children_, 0, signal, bound);
  if (stopped == Stopped::go_on) signal_descendants(children_, 0, SIGCONT, bound);
}

}  // namespace dlock::run
