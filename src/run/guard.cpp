// SPDX-License-Identifier: Apache-2.0
#include "run/guard.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include "run/process_tree.hpp"
#include "run/terminal.hpp"

namespace dlock::run {
namespace {

constexpr int patience_ms = 50;

}  // namespace

void Guard::run() {
  ::setpgid(0, 0);  // neither the terminal nor `kill -9 %1` reaches us; setsid would cost the job its terminal
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "lock-guard");  // `pkill -9 dlock` must not take both of us
  sigset_t set;
  sigfillset(&set);
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  child_signal_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));

  // Made ahead, while dlock asks for the lock, and given up again if that takes long: waiters should not litter.
  cgroup_ = JobCgroup::create(::getpid());

  for (int pause_ms = 1;; pause_ms = sweeping_ ? std::min(pause_ms * 2, 100) : 1) {
    pollfd p[] = {
        {channel_.fd(), POLLIN, 0}, {child_signal_.get(), POLLIN, 0}, {timer_.fd(), POLLIN, 0}, {exec_error_.get(), POLLIN, 0}};
    const bool waiting = job_ == 0 && cgroup_;
    const int watch_ms = waiting ? patience_ms : stopped_ ? 1000 : -1;
    const int ready = ::poll(p, std::size(p), sweeping_ && job_ > 0 ? pause_ms : watch_ms);
    if (ready == 0 && waiting) cgroup_.remove();
    if (p[1].revents != 0) {
      signalfd_siginfo s;
      while (::read(child_signal_.get(), &s, sizeof s) > 0) {}
    }
    if (p[2].revents != 0) timer_.drain();
    if (p[3].revents != 0) read_exec_outcome();
    Channel::Received r;
    auto got = Channel::Got::nothing;
    while (channel_.open() && (got = channel_.receive(r)) == Channel::Got::message) on_message(r);
    if (got == Channel::Got::closed) {  // dlock is dead
      channel_.close();
      start_sweep();
    }
    check_deadlines(Clock::now());
    if (stopped_) wake_orphans();
    const bool job_lived = leader_alive_;
    bool alive = reap();
    if (sweeping_ && alive) sweep_while_anything_changes(alive);
    if (!alive && (job_ > 0 || !channel_.open())) leave();
    if (job_lived && !leader_alive_) tell(Kind::exited, status_);  // if nobody is left, the last word says it
  }
}

void Guard::leave() {
  // The only word that waits: dlock may be stopped with a full queue, and must not miss it. If dlock dies, this fails at once.
  channel_.send_and_wait({Kind::tree_dead, status_, expired_, {}});
  cgroup_.remove();  // while dlock releases the lock; it waits for our exit before its own
  ::_exit(0);
}

void Guard::on_message(const Channel::Received& r) {
  const Message& m = r.message;
  switch (m.kind) {
    case Kind::start: start_job(r); break;
    case Kind::deadlines:
      // Once run out, the lease stays so, whatever a late renewal says: the job has had its signal.
      if (!expired_) when_ = m.when;
      else when_.kill_at = std::min(when_.kill_at, m.when.kill_at), when_.stop_by = m.when.stop_by;
      break;
    case Kind::signal: signal_job(m.value); break;
    case Kind::signal_all:
      signal_descendants(0, m.value);
      signal_descendants(0, SIGCONT);
      break;
    case Kind::sweep: start_sweep(); break;
    default: break;
  }
}

void Guard::start_job(const Channel::Received& r) {
  if (r.attached == -2) return cannot_start(EMFILE);                   // without the descriptor the lock could end before the job
  if (!child_signal_ || timer_.fd() < 0) return cannot_start(EMFILE);  // it would see neither the end nor a deadline
  if (r.cut) return cannot_start(E2BIG);
  hold_.reset(std::max(r.attached, -1));
  when_ = r.message.when;
  if (Clock::now() >= when_.term_at) {  // we slept through it
    hold_.reset();
    return tell(Kind::refused);
  }
  std::string_view env = r.payload;  // NUL after each: "NAME=value" sets, "NAME" removes
  for (; !env.empty(); env.remove_prefix(env.find('\0') + 1)) ::putenv(::strdup(env.data()));

  group_ = r.message.value != 0 ? entry_.group() : 0;
  const pid_t guard = ::getpid();
  int error[2];
  if (::pipe2(error, O_CLOEXEC) != 0) return cannot_start(errno);
  if (!cgroup_) cgroup_ = JobCgroup::create(guard);
  job_ = cgroup_.fork();
  if (job_ == 0) become_job(guard, error[1]);
  const int fork_error = errno;
  ::close(error[1]);
  exec_error_.reset(error[0]);
  if (job_ < 0) return cannot_start(fork_error);
  ::setpgid(job_, group_);  // whoever comes first; EACCES after the exec is fine
  own_group_ = group_ == 0;
  if (own_group_) group_ = job_;
  leader_alive_ = true;
  let_go_of_inherited();
}

void Guard::cannot_start(int error) {
  tell(Kind::start_failed, error);
  leave();
}

void Guard::become_job(pid_t guard, int error_pipe) {
  ::setpgid(0, group_);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(125);  // it died between fork and prctl
  entry_.restore();
  ::execvp(command_[0], command_);
  const int e = errno;
  (void)!::write(error_pipe, &e, sizeof e);
  ::_exit(e == ENOENT ? 127 : 126);
}

// End of file: the exec closed the pipe, or a signal came first. Polled, because an exec may hang on a dead mount.
void Guard::read_exec_outcome() {
  int e = 0;
  const bool failed = ::read(exec_error_.get(), &e, sizeof e) == static_cast<ssize_t>(sizeof e);
  exec_error_.reset();
  if (failed) tell(Kind::exec_failed, e);
  else tell(Kind::started, job_);
}

void Guard::check_deadlines(Deadline now) {
  if (job_ == 0) return;
  if (!expired_ && now >= std::min(when_.term_at, when_.kill_at)) {
    expired_ = true;
    tell(Kind::expired);
    lose(now);
  }
  if (helper_ > 0 && now >= helper_until_) {
    ::kill(-helper_, SIGKILL);
    helper_until_ = no_deadline;
  }
  if (now >= std::min(when_.kill_at, when_.stop_by)) start_sweep();
  timer_.arm(sweeping_ ? no_deadline
                       : std::min({expired_ ? no_deadline : when_.term_at, when_.kill_at, when_.stop_by, helper_until_}));
}

void Guard::lose(Deadline now) {
  if (on_lost_.what == OnLost::Do::exec) {
    helper_ = ::fork();  // one more member of the tree: dlock waits for it, and whatever kills the tree kills it
    if (helper_ != 0) {
      ::setpgid(helper_, helper_);
      helper_until_ = later(now, on_lost_.bound);
      return;
    }
    ::setpgid(0, 0);
    entry_.restore();
    ::execl("/bin/sh", "sh", "-c", on_lost_.command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  signal_descendants(0, on_lost_.what == OnLost::Do::kill ? end_signal_ : on_lost_.signal);  // all of them,
  signal_descendants(0, SIGCONT);                                                            // and the stopped must hear it too
}

void Guard::start_sweep() {
  if (sweeping_) return;
  sweeping_ = true;
  if (job_ > 0) tell(Kind::killing);
}

// False: waitpid said ECHILD, the only proof that the tree is dead.
bool Guard::reap() {
  for (int status = 0;;) {
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid <= 0) return pid == 0;
    if (pid == helper_ && !WIFSTOPPED(status) && !WIFCONTINUED(status)) helper_ = 0, helper_until_ = no_deadline;
    if (pid != job_) continue;
    if (WIFSTOPPED(status)) {
      stopped_ = !own_group_;
      was_orphaned_ = stopped_ && group_is_orphaned(dlock_);
      tell(Kind::stopped, WSTOPSIG(status));
    } else if (WIFCONTINUED(status)) {
      stopped_ = false;
      tell(Kind::continued);
    } else {
      leader_alive_ = stopped_ = false;
      status_ = status;
      if (exec_error_) read_exec_outcome();
    }
  }
}

// Back to back while anybody changes, because a process that keeps re-forking must get no head start. Who is still the same is
// dying, in an uninterruptible state or not ours to kill: it is asked again, ever more rarely.
void Guard::sweep_while_anything_changes(bool& alive) {
  std::vector<pid_t> before{0}, now;
  for (; alive; alive = reap()) {
    cgroup_.kill();
    if (own_group_ && leader_alive_) ::kill(-job_, SIGKILL);
    now = kill_children({});
    if (now == before) return;
    before.swap(now);
  }
}

// A stopped group that loses the last who could continue it gets HUP and CONT from the kernel, but for us, who count as
// somebody and would keep a job stopped for ever when its shell was killed. So we do it.
void Guard::wake_orphans() {
  if (was_orphaned_ || !group_is_orphaned(dlock_)) return;
  was_orphaned_ = true;
  ::kill(-group_, SIGHUP);
  ::kill(-group_, SIGCONT);
}

// What a user sent to dlock. By group where the job has its own, because that is atomic, and only before its leader is
// reaped, because later the number may be another's. dlock's own group has pipeline neighbours in it: ours alone.
void Guard::signal_job(int signal) const {
  if (job_ == 0) return;
  if (own_group_ && leader_alive_) {
    ::kill(-job_, signal);
    return;
  }
  if (leader_alive_ && ::getpgid(job_) != group_) ::kill(job_, signal);  // an interactive shell moves to its own group
  signal_descendants(group_, signal);
}

}  // namespace dlock::run
