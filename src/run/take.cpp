// SPDX-License-Identifier: Apache-2.0
// The lock without a command: `dlock acquire`, detached and --hold.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <cerrno>
#include "core/exit_status.hpp"
#include "run/entry.hpp"
#include "run/events.hpp"
#include "run/keeper.hpp"
#include "run/terminal.hpp"
#include "run/timer.hpp"
#include "run/waiting_line.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

bool ends(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT || signal == SIGHUP; }
bool stops(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

class Taker {
 public:
  Taker(const Plan& plan, const Entry& entry, Events& events, const std::function<bool(const Lease&)>& on_granted)
      : plan_(plan),
        events_(events),
        on_granted_(on_granted),
        signals_(::signalfd(-1, &entry.handled(), SFD_CLOEXEC | SFD_NONBLOCK)),
        keeper_(*new Keeper(plan, events)),
        waiting_line_(plan, events) {}

  Outcome run() {
    keeper_.start();
    while (!over_) {
      timer_.arm(std::min(lost_at_, answer_by_));
      pollfd p[] = {{signals_.get(), POLLIN, 0},
                    {keeper_.fd(), POLLIN, 0},
                    {timer_.fd(), POLLIN, 0},
                    {holding_ ? STDIN_FILENO : -1, POLLIN, 0}};
      ::poll(p, std::size(p), -1);
      timer_.drain();
      const Deadline now = Clock::now();
      for (Keeper::Report& r : keeper_.reports()) std::visit([&](auto& what) { on(what, now); }, r);
      if (!over_ && now >= lost_at_) lose("the lease could not be renewed in time");
      if (!over_ && now >= answer_by_) end(outcome_);
      signalfd_siginfo s;
      while (!over_ && ::read(signals_.get(), &s, sizeof s) > 0) on_signal(static_cast<int>(s.ssi_signo), now);
      if (!over_ && holding_ && p[3].revents != 0 && stdin_ended()) give_back({false, status_ok, "command"}, now);
    }
    waiting_line_.clear();
    events_.status("exit", {{"result", outcome_.result}, {outcome_.by_signal ? "signal" : "code", std::int64_t{outcome_.value}}});
    return outcome_;
  }

 private:
  void on(const Waiting& w, Deadline now) { waiting_line_.update(w, now); }
  void on(Keeper::Granted& g, Deadline now) {
    if (asked_) return;  // leaving: the keeper gives it back
    waiting_line_.clear();
    lease_deadline(g.lease.deadline);
    events_.status("acquired", {{"token", static_cast<std::int64_t>(g.lease.token)}});
    if (!on_granted_(g.lease)) return give_back({false, status_failed_holding, "failed"}, now);
    if (!plan_.request.attached) return end({false, status_ok, "command"});
    holding_ = true;
  }
  void on(const Keeper::Kept& k, Deadline now) {
    if (plan_.timing.leased) events_.status("renewed");
    lease_deadline(k.deadline);
    if (!k.revoked || !holding_) return;
    events_.status("revoked");
    events_.words(
        fmt::format("{}: given back, because somebody asked for it (release --revoke)", printable(plan_.request.key.text())));
    give_back({false, status_ok, "revoked"}, now);
  }
  void on(const Keeper::RenewFailed& f, Deadline) {
    events_.status("renew_failed", {{"error", f.why}});
    events_.words(fmt::format("{}: cannot renew ({})", printable(plan_.request.key.text()), f.why));
  }
  void on(const Keeper::Gone& g, Deadline) { lose(g.why); }
  void on(const Keeper::Ended& e, Deadline) {
    waiting_line_.clear();
    events_.error(e.message);
    end(leaving_ ? outcome_ : Outcome{false, e.status, e.busy ? "busy" : "error"});
  }
  void on(const Keeper::Left&, Deadline) { end(outcome_); }
  void on(const Keeper::Released& r, Deadline) {
    if (!r.confirmed) events_.error(fmt::format("{}: not released ({})", printable(plan_.request.key.text()), r.why));
    end(outcome_);
  }
  void on(const Keeper::Detached&, Deadline) {}

  void on_signal(int signal, Deadline now) {
    if (stops(signal)) return take_default(signal);
    if (signal == SIGCONT || signal == SIGWINCH || signal == SIGURG) return;
    const Outcome by{true, signal, "signal"};
    if (holding_) return give_back(by, now);
    if (asked_ && ends(signal)) return end(by);
    if (asked_) return;
    asked_ = leaving_ = true;
    outcome_ = by;
    answer_by_ = later(now, plan_.timing.op_timeout);
    keeper_.leave();
  }
  void give_back(Outcome o, Deadline now) {
    if (asked_) return end(o);  // asked twice: do not wait for the store
    asked_ = true;
    holding_ = false;
    lost_at_ = no_deadline;
    outcome_ = o;
    answer_by_ = later(now, plan_.timing.op_timeout);
    keeper_.release();
  }
  void lose(const std::string& why) {
    if (asked_) return;
    events_.status("lost", {{"why", why}});
    events_.error(fmt::format("{}: the lock is lost ({})", printable(plan_.request.key.text()), why));
    end({false, status_lost, "lost"});
  }
  void lease_deadline(Deadline d) {
    if (!asked_) lost_at_ = d == no_deadline || !plan_.request.attached ? no_deadline : d - plan_.timing.margin;
  }
  void end(Outcome o) {
    over_ = true;
    outcome_ = o;
  }
  bool stdin_ended() {
    char sink[4096];
    const ssize_t n = ::read(STDIN_FILENO, sink, sizeof sink);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  }

  const Plan& plan_;
  Events& events_;
  const std::function<bool(const Lease&)>& on_granted_;
  Fd signals_;
  Timer timer_;
  Keeper& keeper_;
  WaitingLine waiting_line_;
  Outcome outcome_{};
  Deadline lost_at_ = no_deadline, answer_by_ = no_deadline;
  bool holding_ = false, asked_ = false, leaving_ = false, over_ = false;
};

}  // namespace

Outcome take(const Plan& plan, const std::function<bool(const Lease&)>& on_granted) {
  const Entry& entry = *new Entry;
  if (plan.say.status_fd >= 0) ::fcntl(plan.say.status_fd, F_SETFD, FD_CLOEXEC);
  Events& events = *new Events(plan);
  Outcome outcome;
  if (const auto opened = events.open(); !opened) {
    events.error(opened.error().message);
    outcome = {false, exit_status(opened.error().code), "error"};
  } else {
    outcome = (new Taker(plan, entry, events, on_granted))->run();
  }
  events.flush(2s);
  return outcome;
}

}  // namespace dlock::run
