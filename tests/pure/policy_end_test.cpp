// SPDX-License-Identifier: Apache-2.0
// The decisions of `dlock run` about how it ends: the guard, descendants, --min-hold.
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include "pure/policy_story.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace dlock::run::test;

TEST_CASE("a silent guard is taken for stuck, unless dlock was asleep, too") {
  Story s(attached());
  s.running_attached().signal(SIGTERM);
  const Deadline stop_by = s.policy.deadlines().stop_by;
  SECTION("stuck") {
    s.alarm();
    CHECK(s.now == later(stop_by, Duration(1'485ms) / 2));
    CHECK(s.does<action::KillGuard>());
  }
  SECTION("its report came, but dlock had not read it") {
    s.after(1h).see(event::Killing{}).tick();
    CHECK_FALSE(s.does<action::KillGuard>());
  }
  SECTION("it was asleep, too, and acts now") {
    s.after(1h).tick();
    CHECK_FALSE(s.does<action::KillGuard>());
    REQUIRE(s.policy.wake_at() <= later(s.now, 50ms));
    s.after(20ms).see(event::Killing{}).tick().after(40ms).tick();
    CHECK_FALSE(s.does<action::KillGuard>());
  }
  SECTION("it does not act after waking") {
    s.after(1h).tick().alarm();
    CHECK(s.now == later(later(start, 1h), 50ms));
    CHECK(s.does<action::KillGuard>());
  }
}

TEST_CASE("descendants") {
  auto r = leased();
  SECTION("dlock waits for them, and names them after a second") {
    Story s(r);
    s.running().exits(0).alarm();
    CHECK(s.now == start + 1s);
    CHECK(s.says(Note::descendants));
    CHECK(s.signal(SIGTERM).does<action::SignalTree>(SIGTERM));
    CHECK(s.dead(0).released().ends_with(0));
  }
  SECTION("are ended with --descendants=kill") {
    r.descendants = Descendants::kill;
    Story s(r);
    s.running().exits(4);
    CHECK(s.does<action::SignalTree>(SIGTERM));
    CHECK(s.policy.deadlines().stop_by == s.now + 5s);
    CHECK(s.dead(0).released().ends_with(4));
  }
}

TEST_CASE("descendants that are left alone") {
  auto r = leased();
  r.descendants = Descendants::release;
  Story s(r);
  s.running();
  SECTION("the lock is given back") {
    CHECK_FALSE(s.exits(4).does<action::Release>());  // the guard may have an end to carry out
    CHECK(s.last.empty());
    CHECK(s.left(4 << 8).does<action::Release>());
    CHECK(s.released().ends_with(4));
  }
  SECTION("a signal that comes later ends nothing") {
    s.exits(4).left(4 << 8).signal(SIGTERM);
    CHECK(s.last.empty());
    CHECK(s.released().ends_with(4));
  }
  SECTION("the lease ran out while the program lived") {
    CHECK(s.exits(4).left(4 << 8, true).ends_with(status_lost));
    CHECK_FALSE(s.does<action::Release>());
  }
  SECTION("--min-hold") {
    Asked longer = r;
    longer.min_hold = 60s;
    longer.traits.detached = true;
    Story held(longer);
    held.running().after(5s).exits(4).left(4 << 8);
    CHECK(held.does<action::Detach>());
  }
  SECTION("the guard dies between the end of the program and its last message") {
    CHECK(s.exits(4).see(event::GuardGone{}).does<action::SweepOwn>());
    CHECK(s.see(event::OwnSweepDone{}).does<action::Release>());
    CHECK(s.released().ends_with(status_failed_holding));
  }
}

TEST_CASE("--min-hold") {
  auto r = leased();
  r.min_hold = 60s;
  r.traits.detached = true;
  Story s(r);
  s.running().after(5s).finishes(9);
  SECTION("leaves the remainder to the store and exits at once") {
    REQUIRE(s.does<action::Detach>());
    CHECK(s.actions<action::Detach>().front().span == 55s);
    CHECK(s.see(event::DetachDone{true}).ends_with(9));
  }
  SECTION("goes on holding when the store does not confirm, and can be interrupted") {
    s.see(event::DetachDone{false});
    CHECK(s.says(Note::holding));
    CHECK(s.signal(SIGTERM).does<action::Release>());
    CHECK(s.released().ends_with(9));
  }
  SECTION("goes on holding to the end") {
    s.see(event::DetachDone{false}).see(event::Renewed{start + 90s}).alarm();
    CHECK(s.now == start + 60s);
    CHECK(s.does<action::Release>());
  }
  SECTION(
      "a store that is away: not longer than the lease, and it is said that it was not released") {
    s.see(event::DetachDone{false}).see(event::Renewed{start + 40s}).alarm();
    CHECK(s.now == start + 40s);
    CHECK(s.says(Note::not_released));
    CHECK_FALSE(s.does<action::Release>());
    CHECK(s.ends_with(9));
  }
  SECTION("a keeper that hangs: no longer than the lease, either") {
    CHECK(s.alarm().says(Note::holding));
    s.alarm();
    CHECK(s.now == start + 29'698ms);
    CHECK(s.says(Note::not_released));
    CHECK(s.ends_with(9));
  }
}

TEST_CASE("--min-hold does not apply to a command that never ran") {
  auto r = leased();
  r.min_hold = 60s;
  Story s(r);
  s.granted().see(event::ExecFailed{ENOENT}).finishes(127);
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(status_not_found));
}

TEST_CASE("a command that cannot be executed") {
  Story s(leased());
  s.granted().see(event::ExecFailed{EACCES}).finishes(126).released();
  CHECK(s.ends_with(status_cannot_execute));
}

TEST_CASE("--max-run ends a command whose exec hangs") {
  auto r = leased();
  r.max_run = 20s;
  Story s(r);
  s.granted().see(event::MaxRunOver{});
  CHECK(s.says(Note::max_run));
  CHECK(s.policy.deadlines().stop_by == later(s.now, 5s));
  CHECK(s.see(event::JobStarted{}).dead(SIGTERM).released().ends_with(status_max_run));
}

TEST_CASE("no process for the job") {
  Story s(leased());
  s.granted().see(event::StartFailed{EAGAIN}).dead(-1);
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(status_failed_holding));
}

TEST_CASE("the guard dies: dlock ends its tree, releases only when it is gone, 125") {
  Story s(leased());
  s.running().see(event::GuardGone{});
  CHECK(s.does<action::SweepOwn>());
  CHECK(s.alarm().does<action::SweepOwn>());
  s.see(event::OwnSweepDone{});
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(status_failed_holding));
}

TEST_CASE("the guard dies while we wait") {
  Story s(leased());
  s.see(event::GuardGone{});
  CHECK(s.does<action::LeaveQueue>());
  CHECK(s.says(Note::no_guard));
  SECTION("the queue is left") { s.see(event::WaitLeft{}); }
  SECTION("the wait ended meanwhile") { s.see(event::WaitEnded{status_busy, true}); }
  SECTION("the keeper hangs") { s.alarm(); }
  CHECK(s.ends_with(status_unavailable));
}

TEST_CASE("a guard that is half a margin late is killed") {
  Story s(leased());
  s.running().alarm();
  CHECK(s.now == s.policy.deadlines().kill_at + Duration{1'485ms} / 2);
  CHECK(s.does<action::KillGuard>());
  s.see(event::GuardGone{}).see(event::OwnSweepDone{});
  CHECK(s.ends_with(status_lost));  // past kill_at
}

TEST_CASE("a guard that acts in time is left alone, however long the tree takes to die") {
  Story s(leased());
  s.running().signal(SIGTERM).after(5s).see(event::Killing{});
  CHECK(s.alarm().says(Note::stuck));
  for (int i = 0; i < 5; ++i) {
    s.see(event::Renewed{later(s.now, 29'698ms)}).alarm();
    CHECK_FALSE(s.does<action::KillGuard>());
    CHECK_FALSE(s.outcome());
  }
  CHECK(s.dead(SIGKILL).does<action::Release>());
}

TEST_CASE("a member that will not die is given up only long after the lease; nothing is released") {
  Story s(leased());
  s.running().after(24s).see(event::Expired{}).after(5s).see(event::Killing{});
  while (!s.outcome()) s.alarm();
  CHECK(s.now >= start + 29'698ms + 5s);
  CHECK(s.ends_with(status_failed_holding));
  CHECK(s.policy.abandoned());
}

// It has the rest of the tree, and the locks of the runs in it.
TEST_CASE("without a guard dlock gives up no member, however long ago the lease ended") {
  Story s(leased());
  s.running().after(24s).see(event::Expired{}).after(5s);
  SECTION("that the guard had killed") { s.see(event::Killing{}).see(event::GuardGone{}); }
  SECTION("of a guard that killed nobody") { s.see(event::GuardGone{}); }
  while (s.now < start + 60s) {
    s.alarm();
    REQUIRE_FALSE(s.outcome());
  }
  CHECK(s.does<action::SweepOwn>());
  s.see(event::OwnSweepDone{});
  CHECK_FALSE(s.does<action::Release>());
  CHECK(s.ends_with(status_lost));
}

TEST_CASE("dlock does not wait for an unanswered release") {
  Story s(leased());
  s.running().finishes(5).alarm();
  CHECK(s.says(Note::not_released));
  CHECK(s.ends_with(5));
}

TEST_CASE("--until-success: which ends of the job withdraw its start") {
  Asked r = leased();
  r.once_per = OncePer::parse("1h").value();
  r.until_success = true;
  r.max_run = 20s;
  Story s(r);
  const auto withdraws_first = [&s] {
    const auto found = s.actions<action::Release>();
    return found.size() == 1 && found.front().forget_start;
  };
  SECTION("a status other than 0, before the release, which keeps its time") {
    s.running().finishes(7);
    CHECK(withdraws_first());
    CHECK(s.policy.wake_at() == later(s.now, r.timing.op_timeout * 2));
  }
  SECTION("a signal") {
    s.running().dead(SIGTERM);
    CHECK(withdraws_first());
  }
  SECTION("a revocation, whatever the status") {
    s.running().see(event::Revoked{}).finishes(0);
    CHECK(withdraws_first());
  }
  SECTION("--max-run, whatever the status") {
    s.running().see(event::MaxRunOver{}).finishes(0);
    CHECK(withdraws_first());
  }
  SECTION("not 0") {
    s.running().finishes(0);
    CHECK(s.does<action::Release>());
    CHECK_FALSE(withdraws_first());
  }
  SECTION("not an end that was not seen: the guard is gone") {
    s.running().see(event::GuardGone{}).see(event::OwnSweepDone{});
    CHECK(s.does<action::Release>());
    CHECK_FALSE(withdraws_first());
  }
  SECTION("not a lost lock") {
    s.running().see(event::KeeperLost{}).see(event::Expired{}).exits(1).dead(1 << 8, true);
    CHECK_FALSE(s.does<action::Release>());
    CHECK(s.ends_with(status_lost));
  }
  SECTION("before a --min-hold is left to the store") {
    Asked held = r;
    held.min_hold = 60s;
    held.traits.detached = true;
    Story h(held);
    h.running().finishes(1);
    REQUIRE(h.does<action::Detach>());
    CHECK(h.actions<action::Detach>().front().forget_start);
  }
}
