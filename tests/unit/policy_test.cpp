// SPDX-License-Identifier: Apache-2.0
// The decisions of `dlock run`, one story each, on a clock of our own.
#include "run/policy.hpp"
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <optional>
#include "core/exit_status.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace std::chrono_literals;
using Do = Action::Do;
using Note = Action::Note;

namespace {

constexpr Deadline start{std::chrono::hours{1}};

// ttl 30 s as far as Policy cares: proven 29.698 s, margin 1.485 s, kill_after 5 s.
Policy::Rules leased() {
  Policy::Rules r;
  r.timing = {30s, 29'698ms, 9'899ms, 4'949ms, 5s, 1'485ms, true};
  return r;
}
Policy::Rules attached() {
  Policy::Rules r = leased();
  r.timing.leased = false;
  return r;
}

struct Story {
  Policy policy;
  Deadline now = start;
  Actions last{};

  explicit Story(const Policy::Rules& r) : policy(r) {}
  Story& see(const Event& e) {
    last = policy.step(e, now);
    return *this;
  }
  Story& after(Duration d) {
    now = later(now, d);
    return *this;
  }
  Story& tick() { return see(event::Tick{}); }
  // Moves to the alarm the policy asked for.
  Story& alarm() {
    REQUIRE(policy.wake_at() != no_deadline);
    now = std::max(now, policy.wake_at());
    return tick();
  }
  Story& granted(Duration lease = 29'698ms) { return see(event::Granted{later(now, lease)}); }
  Story& running() { return granted().see(event::JobStarted{}); }
  Story& running_attached() { return see(event::Granted{no_deadline}).see(event::JobStarted{}); }
  Story& exits(int code) { return see(event::JobExited{code << 8}); }
  Story& dead(int status, bool expired = false) { return see(event::TreeDead{status, expired}); }

  bool does(Do what, int number = 0) const {
    for (const Action& a : last)
      if (a.what == what && a.number == number) return true;
    return false;
  }
  bool says(Note note) const {
    for (const Action& a : last)
      if (a.what == Do::say && a.note == note) return true;
    return false;
  }
  std::optional<Outcome> outcome() const {
    for (const Action& a : last)
      if (a.what == Do::end) return a.outcome;
    return {};
  }
  bool ends_with(int code) const { return outcome() && !outcome()->by_signal && outcome()->value == code; }
  bool dies_by(int signal) const { return outcome() && outcome()->by_signal && outcome()->value == signal; }
};

}  // namespace

TEST_CASE("a command runs to its end") {
  Story s(leased());
  s.granted();
  CHECK(s.does(Do::start_job));
  CHECK(s.policy.deadlines().kill_at == start + 29'698ms - 1'485ms);
  CHECK(s.policy.deadlines().term_at == start + 29'698ms - 1'485ms - 5s);
  s.see(event::JobStarted{}).exits(7);
  CHECK_FALSE(s.outcome());
  s.dead(7 << 8);
  CHECK(s.does(Do::release));  // only now: the tree is dead
  s.see(event::ReleaseDone{true});
  CHECK(s.ends_with(7));
}

TEST_CASE("nothing is released before the tree is dead") {
  Story s(leased());
  s.running().exits(0);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(s.after(5s).tick().does(Do::release));
  CHECK(s.dead(0).does(Do::release));
}

TEST_CASE("the command's signal is our signal") {
  Story s(leased());
  s.running().see(event::JobExited{SIGSEGV}).dead(SIGSEGV).see(event::ReleaseDone{true});
  CHECK(s.dies_by(SIGSEGV));
}

TEST_CASE("a kept renewal moves the deadlines, nothing else does") {
  Story s(leased());
  s.running();
  const auto before = s.policy.deadlines().kill_at;
  s.after(10s).see(event::Kept{later(s.now, 29'698ms)});
  CHECK(s.does(Do::send_deadlines));
  CHECK(s.policy.deadlines().kill_at == before + 10s);
  s.after(10s).tick();
  CHECK(s.policy.deadlines().kill_at == before + 10s);
}

TEST_CASE("lost is a latch: a renewal that comes later does not undo it, and nothing is released") {
  Story s(leased());
  s.running().after(24s).see(event::Expired{});
  CHECK(s.says(Note::lost));
  const auto kill_at = s.policy.deadlines().kill_at;
  s.see(event::Kept{later(s.now, 29'698ms)});
  CHECK(s.policy.deadlines().kill_at == kill_at);
  s.exits(0).dead(0, true);
  CHECK_FALSE(s.does(Do::release));
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("the guard's last word carries the latch") {
  Story s(leased());
  s.running().dead(0, true);
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("the store says lost: the guard gets deadlines from now on, and its answer makes the 123") {
  Story s(leased());
  s.running().after(3s).see(event::KeeperLost{});
  CHECK(s.does(Do::send_deadlines));
  CHECK(s.policy.deadlines().term_at == s.now);
  CHECK(s.policy.deadlines().kill_at == s.now + 5s);
  s.see(event::Expired{}).exits(0).dead(0);
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("the store says lost late in the lease: KILL is not later than it was") {
  Story s(leased());
  s.running();
  const auto kill_at = s.policy.deadlines().kill_at;
  s.after(27s).see(event::KeeperLost{});
  CHECK(s.policy.deadlines().kill_at == kill_at);
}

TEST_CASE("a tree that was dead before the loss is a command that ended well") {
  Story s(leased());
  s.running().exits(3).dead(3 << 8);
  s.see(event::KeeperLost{}).see(event::ReleaseDone{false});
  CHECK(s.says(Note::not_released));
  CHECK(s.ends_with(3));
}

TEST_CASE("a forced release ends an attached job, which has no deadline of its own") {
  Story s(attached());
  s.running_attached();
  CHECK(s.policy.wake_at() == no_deadline);
  s.see(event::KeeperLost{});
  CHECK(s.policy.deadlines().term_at == s.now);
  CHECK(s.policy.deadlines().kill_at == s.now + 5s);
  s.see(event::Expired{}).see(event::JobExited{SIGTERM}).dead(SIGTERM, true);
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("a grant that comes too late is given back, and we wait again") {
  Story s(leased());
  s.granted(2s);  // less than margin + kill_after
  CHECK(s.does(Do::queue_again));
  CHECK_FALSE(s.does(Do::start_job));
  CHECK(s.granted().does(Do::start_job));
}

TEST_CASE("a start that the guard refuses is not a loss") {
  Story s(leased());
  s.granted().see(event::StartRefused{});
  CHECK(s.does(Do::queue_again));
  CHECK(s.policy.waiting());
  s.see(event::WaitEnded{75, true});
  CHECK(s.ends_with(75));
}

TEST_CASE("a request to end that came with a refused start is not forgotten") {
  Story s(leased());
  s.granted().see(event::Signal{SIGTERM, false}).see(event::StartRefused{});
  CHECK(s.does(Do::leave_queue));
  CHECK(s.see(event::WaitLeft{}).dies_by(SIGTERM));
}

TEST_CASE("waiting: ending signals leave the queue and are died by") {
  const int sig = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM);
  Story s(leased());
  s.see(event::Signal{sig, false});
  CHECK(s.does(Do::leave_queue));
  SECTION("at once") { CHECK(s.see(event::WaitLeft{}).dies_by(sig)); }
  SECTION("a grant in between starts nothing") {
    s.granted();
    CHECK(s.last.empty());
    CHECK(s.see(event::WaitLeft{}).dies_by(sig));
  }
  SECTION("a keeper that hangs is not waited for") { CHECK(s.alarm().dies_by(sig)); }
}

TEST_CASE("waiting: stop, continue, resize") {
  Story s(leased());
  CHECK(s.see(event::Signal{SIGTSTP, true}).does(Do::stop_self, SIGTSTP));
  CHECK(s.see(event::Signal{SIGCONT, false}).last.empty());
  CHECK(s.see(event::Signal{SIGWINCH, true}).last.empty());
}

TEST_CASE("running: signals are forwarded, TERM INT and QUIT start --kill-after, a second one kills") {
  Story s(leased());
  s.running();
  CHECK(s.see(event::Signal{SIGUSR1, false}).does(Do::send_signal, SIGUSR1));
  CHECK(s.policy.deadlines().stop_by == no_deadline);
  const int sig = GENERATE(SIGTERM, SIGINT, SIGQUIT);
  s.see(event::Signal{sig, false});
  CHECK(s.does(Do::send_signal, sig));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
  SECTION("the same one within 100 ms counts once") {
    s.after(99ms).see(event::Signal{sig, false});
    CHECK(s.last.empty());
  }
  SECTION("later it escalates") {
    s.after(100ms).see(event::Signal{sig, false});
    CHECK(s.policy.deadlines().stop_by == s.now);
  }
  SECTION("another one escalates at once") {
    s.see(event::Signal{sig == SIGTERM ? SIGINT : SIGTERM, false});
    CHECK(s.policy.deadlines().stop_by == s.now);
  }
}

TEST_CASE("running: a HUP that a process sent is only forwarded, one of the kernel ends") {
  Story s(leased());
  s.running().see(event::Signal{SIGHUP, false});
  CHECK(s.does(Do::send_signal, SIGHUP));
  CHECK(s.policy.deadlines().stop_by == no_deadline);
  s.see(event::Signal{SIGHUP, true});
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
}

TEST_CASE("a terminal: its signals are not sent twice, Ctrl-C starts no --kill-after") {
  auto r = leased();
  r.same_group = true;
  Story s(r);
  s.granted();
  CHECK(s.see(event::Signal{SIGINT, true}).does(Do::send_signal, SIGINT));  // before `started`: twice rather than never
  s.see(event::JobStarted{}).after(1s).see(event::Signal{SIGINT, true});
  CHECK(s.last.empty());
  CHECK(s.see(event::Signal{SIGQUIT, true}).last.empty());
  s.see(event::Signal{SIGHUP, true});
  CHECK_FALSE(s.does(Do::send_signal, SIGHUP));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
  s.see(event::Signal{SIGTERM, false});
  CHECK(s.does(Do::send_signal, SIGTERM));
}

TEST_CASE("a hang-up of the terminal is passed on by the leader of the session, who alone hears of it") {
  auto r = leased();
  r.same_group = r.session_leader = true;
  Story s(r);
  s.running().see(event::Signal{SIGHUP, true});
  CHECK(s.does(Do::send_signal, SIGHUP));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
}

TEST_CASE("a stopped job") {
  auto r = leased();
  SECTION("without a terminal nobody watches: go on renewing") {
    CHECK(Story(r).running().see(event::JobStopped{SIGTSTP, false}).last.empty());
  }
  r.same_group = true;
  SECTION("stops us too") { CHECK(Story(r).running().see(event::JobStopped{SIGTSTP, false}).does(Do::stop_self, SIGTSTP)); }
  SECTION("is continued where nobody could continue us") {
    CHECK(Story(r).running().see(event::JobStopped{SIGTSTP, true}).does(Do::send_signal, SIGCONT));
    Story s(r);
    s.running().see(event::JobStopped{SIGTTIN, true});
    CHECK(s.does(Do::send_signal, SIGHUP));
    CHECK(s.does(Do::send_signal, SIGCONT));
    CHECK(Story(r).running().see(event::JobStopped{SIGSTOP, true}).last.empty());
  }
}

TEST_CASE("--max-run") {
  auto r = leased();
  r.max_run = 10s;
  Story s(r);
  s.running().alarm();
  CHECK(s.now == start + 10s);
  CHECK(s.does(Do::signal_all, SIGTERM));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
  SECTION("the status is 124, whatever the command makes of the signal") {
    s.exits(0).dead(0).see(event::ReleaseDone{true});
    CHECK(s.ends_with(status_max_run));
  }
  SECTION("a loss weighs more") {
    s.see(event::Expired{}).exits(0).dead(0, true);
    CHECK(s.ends_with(status_lost));
  }
}

TEST_CASE("descendants") {
  auto r = leased();
  SECTION("are waited for, and named after a second") {
    Story s(r);
    s.running().exits(0).alarm();
    CHECK(s.now == start + 1s);
    CHECK(s.says(Note::descendants));
    CHECK(s.see(event::Signal{SIGTERM, false}).does(Do::signal_all, SIGTERM));
    CHECK(s.dead(0).see(event::ReleaseDone{true}).ends_with(0));
  }
  SECTION("are ended with --descendants=kill") {
    r.descendants = Descendants::kill;
    Story s(r);
    s.running().exits(4);
    CHECK(s.does(Do::signal_all, SIGTERM));
    CHECK(s.policy.deadlines().stop_by == s.now + 5s);
    CHECK(s.dead(0).see(event::ReleaseDone{true}).ends_with(4));
  }
}

TEST_CASE("--min-hold") {
  auto r = leased();
  r.min_hold = 60s;
  r.can_detach = true;
  Story s(r);
  s.running().after(5s).exits(9).dead(9 << 8);
  SECTION("leaves the remainder to the store and ends at once") {
    CHECK(s.last.back().what == Do::detach);
    CHECK(s.last.back().span == 55s);
    CHECK(s.see(event::DetachDone{true}).ends_with(9));
  }
  SECTION("lingers when the store does not confirm, and can be interrupted") {
    s.see(event::DetachDone{false});
    CHECK(s.says(Note::holding));
    CHECK(s.see(event::Signal{SIGTERM, false}).does(Do::release));
    CHECK(s.see(event::ReleaseDone{true}).ends_with(9));
  }
  SECTION("lingers to the end") {
    s.see(event::DetachDone{false}).alarm();
    CHECK(s.now == start + 60s);
    CHECK(s.does(Do::release));
  }
  SECTION("a keeper that hangs: linger, then release") {
    s.alarm();
    CHECK(s.says(Note::holding));
    CHECK(s.alarm().does(Do::release));
  }
}

TEST_CASE("--min-hold does not hold for a command that never ran") {
  auto r = leased();
  r.min_hold = 60s;
  Story s(r);
  s.granted().see(event::ExecFailed{ENOENT}).exits(127).dead(127 << 8);
  CHECK(s.does(Do::release));
  CHECK(s.see(event::ReleaseDone{true}).ends_with(status_not_found));
}

TEST_CASE("what cannot be executed") {
  Story s(leased());
  s.granted().see(event::ExecFailed{EACCES}).exits(126).dead(126 << 8).see(event::ReleaseDone{true});
  CHECK(s.ends_with(status_cannot_execute));
}

TEST_CASE("no process for the job") {
  Story s(leased());
  s.granted().see(event::StartFailed{EAGAIN}).dead(-1);
  CHECK(s.does(Do::release));
  CHECK(s.see(event::ReleaseDone{true}).ends_with(status_failed_holding));
}

TEST_CASE("the guard dies: its tree is ours, released only when it is gone, 125") {
  Story s(leased());
  s.running().see(event::GuardGone{});
  CHECK(s.does(Do::sweep_own));
  CHECK(s.alarm().does(Do::sweep_own));
  s.see(event::OwnSweepDone{});
  CHECK(s.does(Do::release));
  CHECK(s.see(event::ReleaseDone{true}).ends_with(status_failed_holding));
}

TEST_CASE("the guard dies while we wait") {
  Story s(leased());
  s.see(event::GuardGone{});
  CHECK(s.does(Do::leave_queue));
  CHECK(s.see(event::WaitLeft{}).ends_with(status_bug));
}

TEST_CASE("a guard that does not act half a margin after it should is killed") {
  Story s(leased());
  s.running().alarm();
  CHECK(s.now == s.policy.deadlines().kill_at + Duration{1'485ms} / 2);
  CHECK(s.does(Do::kill_guard));
  s.see(event::GuardGone{}).see(event::OwnSweepDone{});
  CHECK(s.ends_with(status_lost));  // past kill_at
}

TEST_CASE("a guard that does act is left alone, however long the tree takes to die") {
  Story s(leased());
  s.running().see(event::Signal{SIGTERM, false}).after(5s).see(event::Killing{});
  s.alarm();
  CHECK(s.says(Note::stuck));
  for (int i = 0; i < 5; ++i) {
    s.see(event::Kept{later(s.now, 29'698ms)}).alarm();
    CHECK_FALSE(s.does(Do::kill_guard));
    CHECK_FALSE(s.outcome());
  }
  CHECK(s.dead(SIGKILL).does(Do::release));
}

TEST_CASE("a member that will not die is given up only when the lease is long over; nothing is released") {
  Story s(leased());
  s.running().after(24s).see(event::Expired{}).after(5s).see(event::Killing{});
  while (!s.outcome()) s.alarm();
  CHECK(s.now >= start + 29'698ms + 5s);
  CHECK(s.ends_with(status_failed_holding));
  CHECK(s.policy.abandoned());
}

TEST_CASE("a release that is not answered is not waited for") {
  Story s(leased());
  s.running().exits(5).dead(5 << 8).alarm();
  CHECK(s.says(Note::not_released));
  CHECK(s.ends_with(5));
}

TEST_CASE("a holder that is asked to stop ends its job as on TERM, once") {
  Story s(leased());
  s.running().after(3s).see(event::Revoked{});
  CHECK(s.does(Do::send_signal, SIGTERM));
  CHECK(s.does(Do::send_deadlines));
  CHECK(s.says(Note::revoked));
  CHECK(s.policy.deadlines().stop_by == later(s.now, 5s));
  s.after(1s).see(event::Revoked{});  // each renewal says it again
  CHECK(s.last.empty());
  s.after(1s).exits(7).dead(7 << 8);
  CHECK(s.does(Do::release));
  s.see(event::ReleaseDone{true});
  CHECK(s.ends_with(7));
}
