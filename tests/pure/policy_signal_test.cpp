// SPDX-License-Identifier: Apache-2.0
// The decisions of `dlock run` about signals, stops and requests to give back.
#include <catch2/catch.hpp>
#include <csignal>
#include "pure/policy_story.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace dlock::run::test;

TEST_CASE("an ending signal that came with a refused start still counts") {
  Story s(leased());
  s.granted().signal(SIGTERM).see(event::StartRefused{});
  CHECK(s.does<action::LeaveQueue>());
  CHECK(s.see(event::WaitLeft{}).dies_by(SIGTERM));
}

TEST_CASE("waiting: an ending signal leaves the queue, then dlock dies of it") {
  const int sig = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM);
  Story s(leased());
  CHECK(s.signal(sig).does<action::LeaveQueue>());
  SECTION("at once") { CHECK(s.see(event::WaitLeft{}).dies_by(sig)); }
  SECTION("a grant in between starts no job") {
    s.granted();
    CHECK(s.last.empty());
    CHECK(s.see(event::WaitLeft{}).dies_by(sig));
  }
  SECTION("a keeper that hangs does not delay the end") { CHECK(s.alarm().dies_by(sig)); }
}

TEST_CASE("waiting: stop, continue, resize") {
  Story s(leased());
  CHECK(s.see(event::Signal{SIGTSTP, true}).does<action::StopSelf>(SIGTSTP));
  CHECK(s.signal(SIGCONT).does<action::CancelStop>());  // came last: dlock goes on
  CHECK(s.see(event::Signal{SIGWINCH, true}).last.empty());
}

TEST_CASE(
    "running: signals are forwarded, TERM INT and QUIT start --kill-after, a second one kills") {
  Story s(leased());
  s.running();
  CHECK(s.signal(SIGUSR1).does<action::SendSignal>(SIGUSR1));
  CHECK(s.policy.deadlines().stop_by == no_deadline);
  const int sig = GENERATE(SIGTERM, SIGINT, SIGQUIT);
  s.signal(sig);
  CHECK(s.does<action::SendSignal>(sig));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
  SECTION("the same one within 100 ms counts once") {
    s.after(99ms).signal(sig);
    CHECK(s.last.empty());
  }
  SECTION("later it escalates") {
    s.after(100ms).signal(sig);
    CHECK(s.policy.deadlines().stop_by == s.now);
  }
  SECTION("another one escalates at once") {
    s.signal(sig == SIGTERM ? SIGINT : SIGTERM);
    CHECK(s.policy.deadlines().stop_by == s.now);
  }
}

TEST_CASE("running: a HUP that a process sent is only forwarded, one of the kernel ends") {
  Story s(leased());
  s.running().signal(SIGHUP);
  CHECK(s.does<action::SendSignal>(SIGHUP));
  CHECK(s.policy.deadlines().stop_by == no_deadline);
  s.see(event::Signal{SIGHUP, true});
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
}

TEST_CASE("a terminal: its signals are not sent twice, Ctrl-C starts no --kill-after") {
  auto r = leased();
  r.group_of_job = JobGroup::dlocks;
  Story s(r);
  s.granted();
  // before `started`: sent twice rather than never
  CHECK(s.see(event::Signal{SIGINT, true}).does<action::SendSignal>(SIGINT));
  s.see(event::JobStarted{}).after(1s).see(event::Signal{SIGINT, true});
  CHECK(s.last.empty());
  CHECK(s.see(event::Signal{SIGQUIT, true}).last.empty());
  s.see(event::Signal{SIGHUP, true});
  CHECK_FALSE(s.does<action::SendSignal>(SIGHUP));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
  CHECK(s.signal(SIGTERM).does<action::SendSignal>(SIGTERM));
}

TEST_CASE(
    "a hang-up of the terminal is forwarded by the session leader, the only one that gets it") {
  auto r = leased();
  r.group_of_job = JobGroup::dlocks;
  r.role = SessionRole::leader;
  Story s(r);
  s.running().see(event::Signal{SIGHUP, true});
  CHECK(s.does<action::SendSignal>(SIGHUP));
  CHECK(s.policy.deadlines().stop_by == s.now + 5s);
}

TEST_CASE("a stopped job") {
  auto r = leased();
  SECTION("without a terminal: go on renewing") {
    CHECK(Story(r).running().see(event::JobStopped{SIGTSTP, false}).last.empty());
  }
  r.group_of_job = JobGroup::dlocks;
  SECTION("stops dlock, too") {
    CHECK(
        Story(r).running().see(event::JobStopped{SIGTSTP, false}).does<action::StopSelf>(SIGTSTP));
  }
  SECTION("is continued where dlock, if stopped, could not be continued") {
    CHECK(
        Story(r).running().see(event::JobStopped{SIGTSTP, true}).does<action::SendSignal>(SIGCONT));
    Story s(r);
    s.running().see(event::JobStopped{SIGTTIN, true});
    CHECK(s.does<action::SendSignal>(SIGHUP));
    CHECK(s.does<action::SendSignal>(SIGCONT));
    CHECK(Story(r).running().see(event::JobStopped{SIGSTOP, true}).last.empty());
  }
}

TEST_CASE("dlock does not stop behind a job that goes on, or has ended") {
  auto r = leased();
  r.group_of_job = JobGroup::dlocks;
  Story s(r);
  s.running().see(event::JobStopped{SIGTSTP, false});
  SECTION("it goes on") {
    CHECK(s.policy.may_stop());
    CHECK(s.see(event::JobContinued{}).does<action::CancelStop>());
  }
  SECTION("it was killed") { CHECK_FALSE(s.dead(SIGKILL).policy.may_stop()); }
  SECTION("descendants live") { CHECK_FALSE(s.exits(0).policy.may_stop()); }
  SECTION("the guard is dead") { CHECK_FALSE(s.see(event::GuardGone{}).policy.may_stop()); }
}

TEST_CASE("a revoked holder ends its job as for --max-run, once") {
  auto r = leased();
  r.end_signal = SIGINT;
  Story s(r);
  s.running().after(3s).see(event::Revoked{});
  CHECK(s.does<action::SignalTree>(SIGINT));
  CHECK(s.says(Note::revoked));
  CHECK(s.policy.deadlines().stop_by == later(s.now, 5s));
  s.after(1s).see(event::Revoked{});  // each renewal reports it again
  CHECK(s.last.empty());
  s.after(1s).finishes(7);
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(status_revoked));
}

TEST_CASE("the status of a revoked holder: after 123, before 124 and the command's") {
  auto r = leased();
  r.max_run = 20s;
  Story s(r);
  s.running();
  SECTION("123") {
    s.see(event::Revoked{}).see(event::KeeperLost{}).see(event::Expired{}).dead(SIGTERM, true);
    CHECK(s.ends_with(status_lost));
  }
  SECTION("124") {
    s.see(event::MaxRunOver{}).see(event::Revoked{}).dead(SIGTERM).released();
    CHECK(s.ends_with(status_revoked));
    CHECK(s.outcome()->how == Outcome::How::revoked);
  }
  SECTION("only descendants were left, which count as the job") {
    s.exits(0).see(event::Revoked{}).dead(0).released();
    CHECK(s.ends_with(status_revoked));
  }
  SECTION("a job that had ended keeps its own") {
    s.finishes(3).see(event::Revoked{}).released();
    CHECK(s.ends_with(3));
  }
}

TEST_CASE("a revocation during --min-hold ends that alone") {
  auto r = leased();
  r.min_hold = 60s;
  Story s(r);
  s.running().finishes(3).see(event::Revoked{});
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(3));
}

TEST_CASE("a revocation and a signal of the user leave the job its --kill-after") {
  Story s(leased());
  s.running().after(3s);
  const Deadline first = s.now;
  SECTION("the signal first") {
    s.signal(SIGTERM).after(1s).see(event::Revoked{});
    CHECK(s.policy.deadlines().stop_by == later(first, 5s));
  }
  SECTION("the revocation first") {
    s.see(event::Revoked{}).after(1s).signal(SIGTERM);
    CHECK(s.does<action::SendSignal>(SIGTERM));
    CHECK(s.policy.deadlines().stop_by == later(first, 5s));
    s.after(1s).signal(SIGTERM);
    CHECK(s.policy.deadlines().stop_by == s.now);
  }
}

TEST_CASE("a revocation is of one grant") {
  Story s(leased());
  CHECK(s.granted().see(event::Revoked{}).says(Note::revoked));
  CHECK(s.see(event::StartRefused{}).does<action::QueueAgain>());
  s.see(event::Revoked{});  // of the grant that was given back
  CHECK(s.last.empty());
  s.running();
  CHECK(s.policy.deadlines().stop_by == no_deadline);
  CHECK(s.see(event::Revoked{}).says(Note::revoked));
}
