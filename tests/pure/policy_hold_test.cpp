// SPDX-License-Identifier: Apache-2.0
// Policy of a lock without a job: acquire, acquire --hold, acquire --keep.
#include <csignal>
#include "policy_story.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace dlock::run::test;

namespace {

Asked without_job(bool stays) {
  Asked r = leased();
  r.command = nullptr;
  r.holds_until_asked = stays;
  return r;
}

// A lock that is held, and was passed on.
struct Held : Story {
  explicit Held(const Asked& r = without_job(true)) : Story(r) {
    granted().see(event::HandedOver{true});
  }
};

}  // namespace

TEST_CASE("without a job: a grant is passed on, and nothing is started") {
  Story s(without_job(false));
  s.granted();
  CHECK(s.does<action::HandOver>());
  CHECK_FALSE(s.does<action::StartJob>());
  s.see(event::HandedOver{true});
  CHECK(s.ends_with(0));
  CHECK_FALSE(s.does<action::Release>());
}

TEST_CASE("without a job: a grant that cannot be passed on is released, and that is 125") {
  Story s(without_job(GENERATE(false, true)));
  s.granted().see(event::HandedOver{false});
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(125));
}

TEST_CASE("a hold lasts until it is asked to end, and is released then") {
  Held s;
  CHECK(s.last.empty());
  CHECK(s.policy.holding());
  s.after(5s).see(event::Renewed{later(s.now, 29'698ms)}).tick();
  CHECK(s.last.empty());
  SECTION("as a reader of its input, a handle or a watched process asks") {
    s.see(event::EndRequested{{false, 0, Outcome::How::caller_gone}});
    CHECK(s.does<action::Release>());
    CHECK(s.released().ends_with(0));
    CHECK(s.outcome()->how == Outcome::How::caller_gone);
  }
  SECTION("by a signal, of which it dies") {
    CHECK(s.signal(SIGTERM).does<action::Release>());
    s.signal(SIGINT);
    CHECK(s.last.empty());
    CHECK(s.released().dies_by(SIGTERM));
  }
  SECTION("by a request to stop: 122") {
    s.see(event::Revoked{});
    CHECK(s.says(Note::revoked));
    CHECK(s.does<action::Release>());
    CHECK(s.released().ends_with(122));
  }
  SECTION("a stop stops dlock alone") {
    s.see(event::Signal{SIGTSTP, true});
    CHECK(s.does<action::StopSelf>(SIGTSTP));
    CHECK(s.policy.holding());
  }
}

TEST_CASE("a hold ends with --max-hold, counted from the grant") {
  Asked r = without_job(true);
  r.max_hold = 10s;
  Held s(r);
  CHECK(s.policy.wake_at() == later(start, 10s));
  s.alarm();
  CHECK(s.does<action::Release>());
  CHECK(s.released().ends_with(0));
  CHECK(s.outcome()->how == Outcome::How::max_hold);
}

TEST_CASE("a hold that is lost is 123, whatever asks for its end at the same time") {
  Asked r = without_job(true);
  const bool several = GENERATE(false, true);
  if (several) r.more_keys.push_back(Key::parse("other").value());
  Held s(r);
  SECTION("as the store says") { s.see(event::KeeperLost{"another has it"}); }
  SECTION("by its time") { s.alarm(); }
  SECTION("before a signal is seen") { s.after(29'698ms).signal(SIGTERM); }
  SECTION("before the end of its input is seen") { s.after(29'698ms).see(event::EndRequested{{}}); }
  CHECK(s.says(Note::lost));
  // one of several is lost: the others are released; one that is lost alone may be another's
  CHECK(s.does<action::Release>() == several);
  if (several) s.released();
  CHECK(s.ends_with(123));
}

TEST_CASE("a release without an answer is said, and ends a hold as it was asked to end") {
  Held s;
  s.signal(SIGTERM);
  SECTION("after the time for one answer") { s.alarm(); }
  SECTION("when it fails") { s.see(event::ReleaseDone{false, "unreachable", true}); }
  CHECK(s.says(Note::not_released));
  CHECK(s.dies_by(SIGTERM));
}

TEST_CASE("without a job: a wait is left when dlock is asked to end") {
  Story s(without_job(true));
  s.see(event::WaitBegan{s.now}).see(event::EndRequested{{false, 0, Outcome::How::caller_gone}});
  CHECK(s.does<action::LeaveQueue>());
  SECTION("the place is given up") { s.see(event::WaitLeft{}); }
  SECTION("the library hangs") { s.alarm(); }
  SECTION("a grant that comes with it is the keeper's to release") {
    s.granted();
    CHECK(s.last.empty());
    s.see(event::WaitLeft{});
  }
  CHECK(s.outcome().has_value());
  CHECK(s.outcome()->how == Outcome::How::caller_gone);
}
