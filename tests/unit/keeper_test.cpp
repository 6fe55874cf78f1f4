// SPDX-License-Identifier: Apache-2.0
#include "run/keeper.hpp"
#include <poll.h>
#include <catch2/catch.hpp>
#include <chrono>
#include "support/fake_backend.hpp"
#include "suspend.hpp"
#include "util/wait.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

// Waits until it reports this, for at most 20 s while the machine is awake.
template <class Report>
bool reports(run::Keeper& keeper) {
  for (const auto end = std::chrono::steady_clock::now() + 20s;
       std::chrono::steady_clock::now() < end;) {
    for (const auto& r : keeper.reports())
      if (std::holds_alternative<Report>(r)) return true;
    pollfd p{keeper.fd(), POLLIN, 0};
    ::poll(&p, 1, 100);
  }
  return false;
}

// Lives as long as the process, like all that a keeper uses.
run::Plan& plan_of(std::string_view store) {
  auto& plan = *new run::Plan{.request = {.key = Key::parse("k").value()}};
  const Url url = Url::parse(store).value();
  plan.traits = fake::factory.recipes[0];
  plan.open = [url](const Settings& s) {
    return fake::factory.open(url, fake::factory.recipes[0], s);
  };
  plan.request.owner = Owner::random();
  plan.request.ttl = 1h;
  plan.timing.proven = 30min;
  plan.timing.renew_every = 10min;
  plan.timing.op_timeout = 1s;
  return plan;
}

}  // namespace

// A recipe may prove more of the first ttl than of later ones, so the deadline does not tell when
// the first renewal is due.
TEST_CASE(
    "the first renewal is due by the time of the grant, though the machine slept before the thread "
    "went on") {
  static auto& plan = plan_of("fake:keeper_test");
  static auto* const events = new run::Events(plan);
  static auto* const keeper = new run::Keeper(plan, *events);
  REQUIRE(keeper->try_now());
  test::machine.sleep(12min);
  keeper->start();
  CHECK(reports<run::Keeper::Kept>(*keeper));
  keeper->release();
  CHECK(reports<run::Keeper::Released>(*keeper));
}

// The supervisor releases a short job's lock itself, before the moment at which it would start the
// thread, which then had a lease that was released.
TEST_CASE("after a release that needed no thread, none is started") {
  static auto& plan = plan_of("fake:keeper_test_release");
  static auto* const events = new run::Events(plan);
  static auto* const keeper = new run::Keeper(plan, *events);
  REQUIRE(keeper->try_now());
  keeper->release();
  CHECK(reports<run::Keeper::Released>(*keeper));
  CHECK(keeper->over());
  keeper->start();
  CHECK_FALSE(keeper->started());
}
