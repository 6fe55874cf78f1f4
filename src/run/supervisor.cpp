// SPDX-License-Identifier: Apache-2.0
#include "run/supervisor.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <algorithm>
#include "job/job_cgroup.hpp"
#include "run/environment.hpp"
#include "util/overloaded.hpp"
#include "util/wait.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr Duration fast_job = 20ms;       // a job that ends within this time needs no Keeper thread
constexpr Duration time_to_name = 250ms;  // how long to search the tree for members to name

// The order of the events of one wake-up: first a loss of the lock, then the user's signals, then
// the job. A revocation comes last, because it does not count if the job had already ended.
int rank(const Event& e) {
  if (const auto* of_guard = std::get_if<GuardEvent>(&e))
    return std::holds_alternative<event::Expired>(*of_guard) ? 0 : 3;
  if (const auto* of_keeper = std::get_if<KeeperEvent>(&e))
    return std::holds_alternative<event::Revoked>(*of_keeper) ? 4 : 1;
  return std::holds_alternative<event::Signal>(e) ? 2 : 3;
}

ProgramEnded end_of_program(const event::JobExited& e) {
  const bool by_signal = WIFSIGNALED(e.status);
  const int value = by_signal ? WTERMSIG(e.status) : WEXITSTATUS(e.status);
  ProgramEnded ended{wall_micros(), {by_signal, value}, {}};
  for (const pid_t p : e.left) {
    if (p == 0) break;
    std::string name = read_beginning(proc_path(p, "/comm"));
    if (name.ends_with('\n')) name.pop_back();
    ended.left.push_back({p, std::move(name)});
  }
  return ended;
}

}  // namespace

Outcome supervise(const Plan& plan, const Entry& entry, const PreexistingProcesses& preexisting,
                  Output& output, Channel guard, pid_t guard_pid, InnerHolds& inner,
                  JoblessHold* hold) {
  if (const auto opened = output.open(); !opened) return output.give_up(opened.error());
  auto& supervisor =
      *new Supervisor(plan, entry, preexisting, output, std::move(guard), guard_pid, inner, hold);
  if (const FailedCall call = supervisor.failed())
    return output.give_up({Errc::unavailable, why(call)});
  return supervisor.run();
}

Supervisor::Supervisor(const Plan& plan, const Entry& entry,
                       const PreexistingProcesses& preexisting, Output& output, Channel guard,
                       pid_t guard_pid, InnerHolds& inner, JoblessHold* hold)
    : plan_(plan),
      entry_(entry),
      preexisting_(preexisting),
      guard_(std::move(guard)),
      guard_pid_(guard_pid),
      output_(output),
      same_group_(plan.group == Group::same || (plan.group == Group::automatic && preexisting.tty)),
      modes_(preexisting.tty.get()),
      watch_(plan.watched),
      signals_(entry.open_signals()),
      keeper_(*new Keeper(plan, output)),
      announcer_(plan, output),
      policy_(plan, same_group_ ? JobGroup::dlocks : JobGroup::own,
              ::getsid(0) == ::getpid() ? SessionRole::leader : SessionRole::member),
      inner_(inner),
      hold_(hold),
      guard_reaped_(hold != nullptr) {}

FailedCall Supervisor::failed() const {
  for (const FailedCall& call : {signals_.failed(), timer_.failed(), keeper_.failed()})
    if (call) return call;
  return {};
}

Outcome Supervisor::run() {
  // If the store is this machine, the first try needs no thread. The guard gets ready meanwhile.
  const bool granted = !hold_ && plan_.traits.liveness == Liveness::process &&
                       plan_.splay <= Duration{} && keeper_.try_now();
  if (granted) turn();
  if (!hold_) entry_.close_inherited(STDERR_FILENO);
  if (!granted) keeper_.start();
  while (!policy_.over()) {
    timer_.arm(std::min({policy_.wake_at(), thread_at_}));
    const short guard_events = guard_.unsent() ? POLLIN | POLLOUT : POLLIN;
    std::vector<pollfd> p{{signals_.fd(), POLLIN, 0},
                          {guard_.fd(), guard_events, 0},
                          {timer_.fd(), POLLIN, 0},
                          {keeper_.fd(), POLLIN, 0},
                          {watch_, POLLIN, 0}};
    if (can_be_ended()) {
      const auto more = hold_->descriptors(held_by());
      p.insert(p.end(), more.begin(), more.end());
    }
    inner_.watch(p);
    ::poll(p.data(), p.size(), -1);
    if ((p[1].revents & POLLOUT) != 0) guard_.flush();
    timer_.drain();
    turn();
  }
  // If the metrics cannot be written, the exit status is still that of the command.
  if (const auto written = metrics_.write_end(outcome_); !written)
    output_.error(written.error().message);
  output_.flush(exit_flush_time);
  return outcome_;
}

// Reads the clock once, then handles the events, then what is due at that time. dlock may have been
// stopped until long after a deadline, and the guard may have acted on that deadline. So dlock must
// read the guard's messages before it compares deadlines with the clock.
void Supervisor::turn() {
  const Deadline now = Clock::now();
  if (now >= thread_at_) {
    keeper_.start();
    // If no thread is available, the job goes on, and dlock tries again later.
    thread_at_ = keeper_.started() || keeper_.over() ? no_deadline : later(now, 1s);
  }
  for (const Event& e : gather(now)) step(e, now);
  if (can_be_ended())
    if (const auto end = hold_->end_requested(held_by())) step(event::EndRequested{*end}, now);
  step(event::Tick{}, now);
  inner_.serve();
  if (stop_by_ != 0) stop();
}

void Supervisor::step(const Event& e, Deadline now) {
  if (const auto* of_job = std::get_if<GuardEvent>(&e)) {
    announcer_.report(*of_job);
    if (std::holds_alternative<event::JobStarted>(*of_job)) metrics_.job_runs();
    if (const auto* exited = std::get_if<event::JobExited>(of_job); exited && exited->left[0] > 0) {
      const ProgramEnded ended = end_of_program(*exited);
      announcer_.program_ended(ended);
      keeper_.note_end(ended);
    }
    if (expired_at_end(*of_job)) inner_.clear();
  }
  for (const Action& a : policy_.step(e, now)) perform(a);
}

// Stops dlock because the job was stopped. When the job goes on, the guard reports it and then
// sends us CONT. That CONT cancels a pending stop. If the CONT came before the stop was pending,
// the guard's message is here already, and this function reads it.
//
// One race remains:
// 1. dlock checks for a CONT.  2. The user's CONT comes.  3. dlock makes its stop pending, which
//    drops that CONT. Then dlock stays stopped until the next CONT.
//    (A SIGSTOP is never pending. So dlock reads the guard's messages before it sends itself
//    SIGSTOP. A CONT of the guard that comes between the two is dropped in the same way.)
void Supervisor::stop() {
  announcer_.clear_line();
  output_.flush(100ms);
  while (stop_by_ != 0 && policy_.may_stop() && !is_pending(SIGCONT)) {
    const int signal = stop_by_;
    if (signal != SIGSTOP) ::kill(::getpid(), signal);
    std::vector<Event> events;
    from_guard(events);
    if (events.empty()) {
      if (signal == SIGSTOP) ::kill(::getpid(), signal);
      deliver_pending(signal);
      break;
    }
    drop_pending(signal);
    std::ranges::stable_sort(events, {}, rank);
    for (const Event& e : events) step(e, Clock::now());
  }
  stop_by_ = 0;
}

std::vector<Event> Supervisor::gather(Deadline now) {
  std::vector<Event> events;
  from_guard(events);
  from_keeper(events, now);
  from_user(events);
  from_watched(events);
  std::ranges::stable_sort(events, {}, rank);
  return events;
}

void Supervisor::from_keeper(std::vector<Event>& out, Deadline now) {
  for (KeeperEvent& e : keeper_.events()) {
    announcer_.report(e, policy_, now);
    if (auto* granted = std::get_if<event::Acquired>(&e)) {
      leases_ = granted->leases;
      holds_ = std::move(granted->holds);
      metrics_.granted(now);
    }
    const auto* done = std::get_if<event::ReleaseDone>(&e);
    if (done && hold_) hold_->released(*done);
    out.emplace_back(std::move(e));
  }
}

void Supervisor::from_user(std::vector<Event>& out) {
  while (const auto s = signals_.next()) {
    if (s->ssi_signo == SIGCHLD) {
      reap_others();
      continue;
    }
    // The guard sends this CONT when the job goes on.
    if (s->ssi_signo == SIGCONT && static_cast<pid_t>(s->ssi_pid) == guard_pid_) continue;
    // The kernel queues a signal once, with its first sender. So the terminal's HUP may have been
    // merged into the HUP of a process.
    const bool hung_up = s->ssi_signo == SIGHUP && modes_.terminal_is_gone();
    out.emplace_back(
        event::Signal{static_cast<int>(s->ssi_signo), s->ssi_code == SI_KERNEL || hung_up});
  }
}

void Supervisor::from_watched(std::vector<Event>& out) {
  pollfd p{watch_, POLLIN, 0};
  if (watch_ < 0 || ::poll(&p, 1, 0) != 1) return;
  watch_ = -1;
  announcer_.watched_ended();
  out.emplace_back(event::Signal{SIGTERM, false});
}

void Supervisor::from_guard(std::vector<Event>& out) {
  Channel::Received r;
  auto got = Channel::ReceiveResult::nothing;
  while (guard_.open() && (got = guard_.receive(r)) == Channel::ReceiveResult::message) {
    const auto& e = std::get<GuardEvent>(r.message);
    if (expired_at_end(e).value_or(false)) out.emplace_back(GuardEvent{event::Expired{}});
    out.emplace_back(e);
  }
  if (got == Channel::ReceiveResult::closed) {
    guard_.close();
    out.emplace_back(event::GuardGone{});
  }
}

// As PID 1 of a container, dlock inherits foreign orphans, such as those of `docker exec`.
void Supervisor::reap_others() const {
  for (const pid_t child : preexisting_.children.list())
    if (child != guard_pid_) ::waitpid(child, nullptr, WNOHANG);
}

void Supervisor::perform(const Action& a) {
  const auto cases = Overloaded{
      [&](const action::StartJob&) { start_job(); },
      [&](const action::SendDeadlines&) { guard_.send(order::Deadlines{policy_.deadlines()}); },
      [&](const action::SendSignal& send) {
        guard_.send(order::Signal{policy_.deadlines(), send.signal});
      },
      [&](const action::SignalTree& send) {
        if (send.signal == plan_.end_signal) announcer_.sends_end(send.signal);
        guard_.send(order::Signal{policy_.deadlines(), send.signal, true});
      },
      [&](const action::KillGuard&) { ::kill(guard_pid_, SIGKILL); },
      [&](const action::SweepOwn&) { sweep_own(); },
      [&](const action::StopSelf& stop) { stop_by_ = stop.signal; },
      [&](const action::CancelStop&) { stop_by_ = 0; },
      [&](const action::HandOver&) { hand_over(); },
      [&](const action::Announce& say) {
        const bool named = say.note == Note::stuck || say.note == Note::descendants;
        announcer_.announce(say.note, named ? job_members() : std::vector<pid_t>{}, Clock::now());
      },
      [&](const action::End& last) { end(last.outcome); },
      [&](const KeeperAction& request) { keeper_.post(request); }};
  std::visit(cases, a);
}

// ---- without a job -----------------------------------------------------------------------------

bool Supervisor::can_be_ended() const { return hold_ && (policy_.waiting() || policy_.holding()); }

std::optional<Owner> Supervisor::held_by() const {
  return policy_.holding() ? std::optional(leases_.front().owner) : std::nullopt;
}

void Supervisor::hand_over() {
  announcer_.clear_line();
  announcer_.acquired(leases_.front());
  holds_.clear();
  step(event::HandedOver{hold_->pass_on(leases_)}, Clock::now());
}

// ---- the job -----------------------------------------------------------------------------------

void Supervisor::start_job() {
  announcer_.clear_line();
  const FailedCall call = order_start();
  holds_.clear();
  if (call.error == EPIPE || call.error == ECONNRESET) {
    ::kill(guard_pid_, SIGKILL);  // the guard's end of the channel is broken; GuardGone will follow
  } else if (call) {
    announcer_.start_failed(fmt::format("the order to the guard process failed: {}", why(call)));
    for (const Action& a : policy_.step(event::StartFailed{call.error}, Clock::now())) perform(a);
    ::shutdown(guard_.fd(), SHUT_WR);  // no more messages: the guard sends TreeDead and exits
    return;
  }
  if (!keeper_.started()) thread_at_ = later(Clock::now(), fast_job);
  announcer_.acquired(leases_.front());
}

FailedCall Supervisor::order_start() {
  std::string environment = job_environment(plan_, leases_, guard_pid_);
  if (environment.size() > Channel::max_payload)
    environment.resize(Channel::max_payload + 1);  // the guard sees the truncation and refuses
  // Some locks end when the last duplicate of a descriptor is closed. The start message carries
  // these descriptors, so there is never a job whose guard does not hold them. None of them stays
  // in a socket, where the kernel would count it against all programs of this user.
  std::vector<int> fds;
  for (const Fd& fd : holds_) fds.push_back(fd.get());
  const int error =
      guard_.send_with(order::Start{same_group_, policy_.deadlines()}, environment, fds);
  return error == 0 ? FailedCall{} : FailedCall{"sendmsg", error};
}

// Lets no process of ours outlive dlock, except a guard that still has members to end.
void Supervisor::dismiss_guard() {
  if (policy_.abandoned() || guard_reaped_) return;
  if (guard_.open()) {
    ::shutdown(guard_.fd(), SHUT_WR);
    const Deadline end = later(Clock::now(), 2s);
    Channel::Received r;
    auto got = Channel::ReceiveResult::nothing;
    for (; got != Channel::ReceiveResult::closed && Clock::now() < end; got = guard_.receive(r)) {
      pollfd p{guard_.fd(), POLLIN, 0};
      if (got == Channel::ReceiveResult::nothing) wait_until({&p, 1}, end);
    }
    if (got != Channel::ReceiveResult::closed) ::kill(guard_pid_, SIGKILL);
  }
  // The guard has closed the channel, so it is about to end. If it hangs while it closes another
  // descriptor, because a file server is dead, dlock exits before the guard.
  const Fd pin(static_cast<int>(::syscall(SYS_pidfd_open, guard_pid_, 0)));
  pollfd p{pin.get(), POLLIN, 0};
  if (pin) wait_until({&p, 1}, later(Clock::now(), 2s));
  // If another process reads the guard's entry in /proc while dlock reaps the guard, the kernel
  // spins until the guard's second thread has ended. With SCHED_FIFO on one processor it spins for
  // ever. So let that second thread run first.
  ::sched_yield();
  int status = 0;
  if (::waitpid(guard_pid_, &status, pin ? WNOHANG : 0) == guard_pid_ && WIFSIGNALED(status))
    JobCgroup::find(guard_pid_).remove();
}

void Supervisor::end(Outcome outcome) {
  outcome_ = outcome;
  metrics_.run_ended(Clock::now());
  announcer_.clear_line();
  dismiss_guard();
  if (policy_.killed()) modes_.restore();
  announcer_.exit(outcome);
}

// ---- the guard is dead -------------------------------------------------------------------------

// Returns whether the child is no part of the job: it existed when dlock started, or it is an
// orphan of such a process and older than the guard. A younger orphan looks like a member of the
// job, and dlock treats it as a member, because the promise about the job counts more.
bool Supervisor::foreign(pid_t child) const {
  const auto process = process_stat(child);
  const ProcessId id = process ? process->id : ProcessId{child};
  return (process && id.start < guard_started_) ||
         std::ranges::find(preexisting_.before, id) != preexisting_.before.end();
}

// Kills the dead guard's tree, which dlock has inherited. ECHILD would prove that the tree is dead.
// But it does not come while a child from before dlock's start lives, and dlock must not kill such
// a child. So the tree counts as dead when the list of members is empty three times in a row after
// everything was reaped. When a member dies, its children become ours a moment later, one
// generation after the other. No event reports that, so the list is read each millisecond. If
// nothing changes for 20 ms, the members are in an uninterruptible state. Then this function
// returns, and Policy sends SweepOwn again, less and less often. The function also returns after
// 200 rounds, because a job may fork without end, and signals and deadlines must not wait for that
// job.
void Supervisor::sweep_own() {
  reap_guard();
  auto cgroup = JobCgroup::find(guard_pid_);
  std::vector<pid_t> members, before;
  int same = 0, rounds = 0;
  for (int empty = 0; empty < 3; empty = members.empty() ? empty + 1 : 0) {
    if (++rounds > 200 || same > 20) return;
    cgroup.kill();
    before.swap(members);
    members = preexisting_.children.list();
    std::erase_if(members, [&](pid_t p) {
      return std::ranges::find(before, p) == before.end() && foreign(p);
    });
    kill_children(members);
    same = !members.empty() && members == before ? same + 1 : 0;
    if (same > 0) ::poll(nullptr, 0, 1);
    for (const pid_t p : members) ::waitpid(p, nullptr, WNOHANG);
    if (preexisting_.before.empty() && members.empty() && ::waitpid(-1, nullptr, WNOHANG) < 0)
      break;
  }
  inner_.clear();
  cgroup.remove();
  announcer_.job_is_dead();
  step(event::OwnSweepDone{}, Clock::now());
}

std::vector<pid_t> Supervisor::job_members() const {
  const Deadline until = later(Clock::now(), time_to_name);
  if (!guard_reaped_) return descendants_of(guard_pid_, until);
  std::vector<pid_t> members;
  for (const pid_t child : preexisting_.children.list()) {
    if (foreign(child)) continue;
    members.push_back(child);
    const auto below = descendants_of(child, until);
    members.insert(members.end(), below.begin(), below.end());
  }
  return members;
}

void Supervisor::reap_guard() {
  if (guard_reaped_) return;
  if (const auto process = process_stat(guard_pid_); process) guard_started_ = process->id.start;
  ::sched_yield();  // for the reason in dismiss_guard()
  // ECHILD: the sweep has already reaped the guard.
  guard_reaped_ = ::waitpid(guard_pid_, nullptr, WNOHANG) != 0;
}

}  // namespace dlock::run
