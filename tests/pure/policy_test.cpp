// SPDX-License-Identifier: Apache-2.0
// The decisions of `dlock run` about the lock: grants, renewals, loss, release.
#include <catch2/catch.hpp>
#include <csignal>
#include "pure/policy_story.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace dlock::run::test;

TEST_CASE("a command runs to its end") {
  Story s(leased());
  s.granted();
  CHECK(s.does<action::StartJob>());
  CHECK(s.policy.deadlines().kill_at == start + 29'698ms - 1'485ms);
  CHECK(s.policy.deadlines().term_at == start + 29'698ms - 1'485ms - 5s);
  s.see(event::JobStarted{}).exits(7);
  CHECK_FALSE(s.outcome());
  s.dead(7 << 8);
  REQUIRE(s.does<action::Release>());                              // only now: the tree is dead
  CHECK(s.actions<action::Release>().front().outcome.value == 7);  // for the record of the last run
  CHECK(s.released().ends_with(7));
}

TEST_CASE("nothing is released before the tree is dead") {
  Story s(leased());
  s.running().exits(0);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(s.after(5s).tick().does<action::Release>());
  CHECK(s.dead(0).does<action::Release>());
}

TEST_CASE("the signal that killed the command kills dlock, too") {
  Story s(leased());
  CHECK(s.running().see(event::JobExited{SIGSEGV}).dead(SIGSEGV).released().dies_by(SIGSEGV));
}

TEST_CASE("only a kept renewal moves the deadlines") {
  Story s(leased());
  s.running();
  const auto before = s.policy.deadlines().kill_at;
  s.after(10s).see(event::Renewed{later(s.now, 29'698ms)});
  CHECK(s.does<action::SendDeadlines>());
  CHECK(s.policy.deadlines().kill_at == before + 10s);
  s.after(10s).tick();
  CHECK(s.policy.deadlines().kill_at == before + 10s);
}

TEST_CASE("lost is a latch: a later renewal does not undo it, and nothing is released") {
  Story s(leased());
  CHECK(s.running().after(24s).see(event::Expired{}).says(Note::lost));
  const auto kill_at = s.policy.deadlines().kill_at;
  s.see(event::Renewed{later(s.now, 29'698ms)});
  CHECK(s.policy.deadlines().kill_at == kill_at);
  s.exits(0).dead(0, true);
  CHECK_FALSE(s.does<action::Release>());
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("the guard's final report carries the latch") {
  Story s(leased());
  CHECK(s.running().dead(0, true).ends_with(status_lost));
}

TEST_CASE("the store says lost: the guard gets deadlines from now on, and its report gives 123") {
  Story s(leased());
  s.running().after(3s).see(event::KeeperLost{});
  CHECK(s.does<action::SendDeadlines>());
  CHECK(s.policy.deadlines().term_at == s.now);
  CHECK(s.policy.deadlines().kill_at == s.now + 5s);
  CHECK(s.see(event::Expired{}).finishes(0).ends_with(status_lost));
}

TEST_CASE("the store says lost late in the lease: KILL is not delayed") {
  Story s(leased());
  s.running();
  const auto kill_at = s.policy.deadlines().kill_at;
  s.after(27s).see(event::KeeperLost{});
  CHECK(s.policy.deadlines().kill_at == kill_at);
}

TEST_CASE("a tree that died before the loss: the command's status counts") {
  Story s(leased());
  s.running().finishes(3);
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

TEST_CASE("a grant that comes too late is given back, and dlock waits again") {
  Story s(leased());
  s.granted(2s);  // less than margin + kill_after
  CHECK(s.does<action::QueueAgain>());
  CHECK_FALSE(s.does<action::StartJob>());
  CHECK(s.granted().does<action::StartJob>());
}

TEST_CASE("a store that grants too late again and again is asked with longer and longer pauses") {
  Story s(leased());
  Duration before{};
  for (int i = 0; i < 8; ++i) {
    s.granted(2s);
    REQUIRE(s.does<action::QueueAgain>());
    const Duration pause = s.actions<action::QueueAgain>().front().pause;
    CHECK(pause > Duration{});
    CHECK(pause >= before);
    CHECK(pause <= 2s);
    before = pause;
  }
  CHECK(before == 2s);
  CHECK(s.running().finishes(0).does<action::Release>());
}

TEST_CASE("of several keys those that are not lost are given back when the job is dead") {
  auto rules = leased();
  rules.more_keys.push_back(Key::parse("other").value());
  Story s(rules);
  s.running().see(event::KeeperLost{}).see(event::Expired{}).see(event::JobExited{SIGTERM});
  CHECK_FALSE(s.does<action::Release>());
  CHECK(s.dead(SIGTERM, true).does<action::Release>());
  SECTION("answered") { s.see(event::ReleaseDone{false}); }
  SECTION("not answered in time") { s.alarm(); }
  CHECK_FALSE(s.says(Note::not_released));  // the loss was told
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("a start refused by the guard is not a loss") {
  Story s(leased());
  s.granted().see(event::StartRefused{});
  CHECK(s.does<action::QueueAgain>());
  CHECK(s.policy.waiting());
  CHECK(s.see(event::WaitEnded{75, true}).ends_with(75));
}

TEST_CASE("--max-run") {
  auto r = leased();
  r.max_run = 10s;
  Story s(r);
  s.running();
  SECTION("the guard enforces it and reports it") {
    s.after(10s).see(event::MaxRunOver{});
    CHECK(s.says(Note::max_run));
    CHECK(s.policy.deadlines().stop_by == start + 15s);
    s.tick();
    CHECK(s.last.empty());
    SECTION("the status is 124, whatever the command's status") {
      s.finishes(0).released();
      CHECK(s.ends_with(status_max_run));
    }
    SECTION("a loss has precedence") {
      CHECK(s.see(event::Expired{}).exits(0).dead(0, true).ends_with(status_lost));
    }
  }
  SECTION("the guard is stopped: it is killed when the job should be dead") {
    s.alarm();
    CHECK(s.now == start + 10s);
    CHECK(s.says(Note::max_run));
    CHECK_FALSE(s.does<action::KillGuard>());
    s.alarm();
    CHECK(s.now == later(start + 15s, Duration(1'485ms) / 2));
    CHECK(s.does<action::KillGuard>());
  }
}
