// SPDX-License-Identifier: Apache-2.0
// How a wait ends: by Policy, on a simulated clock, whatever the keeper does.
#include "run/wait_end.hpp"
#include <catch2/catch.hpp>
#include <csignal>
#include <optional>
#include "core/exit_status.hpp"
#include "pure/policy_story.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace dlock::run::test;

namespace {

Asked waiting(std::optional<Duration> wait) {
  Asked r = leased();
  r.wait = wait;
  REQUIRE(wait_rules(r).connect + wait_rules(r).answer == 9'949ms);
  return r;
}

struct Wait : Story {
  explicit Wait(const Asked& r) : Story(r) { see(event::WaitBegan{start}); }
};

}  // namespace

TEST_CASE("-w: at its end dlock leaves the queue and waits at most 200 ms for the keeper") {
  Wait w(waiting(3s));
  w.at(10ms).answered();
  CHECK(w.policy.wake_at() == start + 3s);
  w.at(2'500ms).answered();
  CHECK(w.at(3s).tick().does<action::LeaveQueue>());
  CHECK_FALSE(w.outcome());
  CHECK(w.policy.wake_at() == start + 3'200ms);
  SECTION("the keeper has left the queue") {
    w.at(3'020ms).see(event::WaitLeft{});
    CHECK(w.says(Note::busy));
    CHECK(w.ends_with(75));
  }
  SECTION("the keeper hangs") {
    w.at(3'199ms).tick();
    CHECK_FALSE(w.outcome());
    CHECK(w.at(3'200ms).tick().ends_with(75));
  }
  SECTION("the lock was granted meanwhile: the keeper releases it") {
    w.at(3'010ms).see(granted_until(start + 30s));
    CHECK(w.last.empty());
    CHECK(w.see(event::WaitLeft{}).ends_with(75));
  }
  SECTION("a signal meanwhile") {
    w.at(3'010ms).signal(SIGTERM);
    CHECK(w.last.empty());
    CHECK(w.see(event::WaitLeft{}).dies_by(SIGTERM));
  }
}

TEST_CASE("-w: without an answer in its last second a wait ends as unavailable, not as busy") {
  Wait w(waiting(20s));
  w.at(10ms);
  SECTION("never an answer") {}
  SECTION("an old one") { w.answered().at(18'900ms).answered(); }
  SECTION("a fresh one, and then none") {
    w.answered().at(19'500ms).answered().at(19'900ms).see(event::NoAnswer{});
  }
  w.at(20s).tick();
  CHECK(w.does<action::LeaveQueue>());
  w.at(20'100ms).see(event::WaitLeft{});
  CHECK(w.says(Note::silent));
  CHECK(w.ends_with(status_unavailable));
}

TEST_CASE("-w: below a second, the first answer is recent enough; -E sets the status") {
  auto r = waiting(300ms);
  r.conflict_status = 9;
  Wait w(r);
  w.at(5ms).answered().at(300ms).tick();
  CHECK(w.see(event::WaitLeft{}).ends_with(9));
}

TEST_CASE("-n: one try, with the time for connecting and one answer") {
  Wait w(waiting(0us));
  CHECK(w.policy.wake_at() == start + 9'949ms);
  SECTION("its answer ends it") { CHECK(w.at(7s).see(event::WaitEnded{75, true}).ends_with(75)); }
  SECTION("no answer") {
    CHECK(w.at(9'949ms).tick().does<action::LeaveQueue>());
    CHECK(w.at(10'149ms).tick().ends_with(status_unavailable));
  }
  SECTION("granted too late to start: one more try, with the same time") {
    w.at(9s).see(granted_until(start + 9s));
    CHECK(w.does<action::QueueAgain>());
    CHECK(w.policy.wake_at() == start + 9s + 9'949ms);
  }
}

TEST_CASE("without -w: no limit, except for a store that was never reached") {
  Wait w(waiting(std::nullopt));
  CHECK(w.policy.wake_at() == start + 9'949ms);
  SECTION("not reached") {
    CHECK(w.at(9'949ms).tick().does<action::LeaveQueue>());
    CHECK(w.at(10'960ms).see(event::WaitLeft{}).ends_with(status_unavailable));
  }
  SECTION("reached once") {
    w.at(1s).answered().at(2s).see(event::NoAnswer{});
    CHECK(w.policy.wake_at() == no_deadline);
  }
  SECTION("reached, but it grants nothing yet") {
    w.at(1s).see(event::NoAnswer{.reached = true});
    CHECK(w.policy.wake_at() == no_deadline);
    CHECK(w.at(70s).see(granted_until(start + 100s)).does<action::StartJob>());
  }
}

TEST_CASE("granted too late to start: the end of the wait does not move") {
  Wait w(waiting(60s));
  w.at(50s).see(granted_until(start + 51s));
  CHECK(w.does<action::QueueAgain>());
  CHECK(w.policy.wake_at() == start + 60s);
  w.at(60s).tick();
  CHECK(w.does<action::LeaveQueue>());
}

TEST_CASE("an ending signal ends the wait within 200 ms; the same one within 100 ms counts once") {
  Wait w(waiting(std::nullopt));
  w.at(1s).answered().at(5s).signal(SIGTERM);
  CHECK(w.does<action::LeaveQueue>());
  CHECK(w.policy.wake_at() == start + 5'200ms);
  SECTION("a keeper that hangs") { CHECK(w.at(5'200ms).tick().dies_by(SIGTERM)); }
  SECTION("timeout(1) sends it twice") {
    w.at(5'099ms).signal(SIGTERM);
    CHECK(w.last.empty());
    CHECK(w.at(5'120ms).see(event::WaitLeft{}).dies_by(SIGTERM));
  }
  SECTION("the same one later ends it at once") {
    CHECK(w.at(5'101ms).signal(SIGTERM).dies_by(SIGTERM));
  }
  SECTION("another one") { CHECK(w.at(5'001ms).signal(SIGINT).dies_by(SIGINT)); }
}

TEST_CASE("no signal cuts a release short") {
  Wait w(waiting(std::nullopt));
  w.see(granted_until(start + 29s)).see(event::JobStarted{}).at(1s).signal(SIGTERM);
  w.at(1'010ms).see(event::JobExited{SIGTERM}).see(event::TreeDead{SIGTERM, false});
  REQUIRE(w.does<action::Release>());
  for (const Duration d : {1'011ms, 1'200ms, 3'000ms, 5'900ms}) {
    w.at(d).signal(SIGTERM);
    CHECK(w.last.empty());
    CHECK(w.see(event::Signal{SIGINT, true}).last.empty());
  }
  CHECK(w.policy.wake_at() == start + 1'010ms + 4'949ms);
  CHECK(w.released().dies_by(SIGTERM));
}

TEST_CASE("a forwarded ending signal is followed by CONT: a stopped job gets it before KILL") {
  auto r = waiting(std::nullopt);
  Wait w(r);
  w.see(granted_until(start + 29s))
      .see(event::JobStarted{})
      .see(event::JobStopped{SIGSTOP, false})
      .at(1s);
  const int sig = GENERATE(SIGTERM, SIGINT, SIGQUIT);
  w.signal(sig);
  REQUIRE(w.last.size() == 2);
  CHECK(std::get<action::SendSignal>(w.last[0]).signal == sig);
  CHECK(std::get<action::SendSignal>(w.last[1]).signal == SIGCONT);
  w.at(2s).signal(SIGUSR1);  // not a request to end
  CHECK_FALSE(w.does<action::SendSignal>(SIGCONT));
  w.signal(SIGHUP);  // reload
  CHECK_FALSE(w.does<action::SendSignal>(SIGCONT));
}
