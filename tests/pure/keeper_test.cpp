// SPDX-License-Identifier: Apache-2.0
#include "run/keeper.hpp"
#include <poll.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>
#include "run/wrap/wrapped.hpp"
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
    for (const auto& r : keeper.events())
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

// A queue in which nobody moves: each look at it takes as long as it may, which passes at once.
struct Queue {
  Duration silence{};  // of the store, before its first answer
  Deadline began = Clock::now();
  std::vector<std::chrono::minutes> answers{};  // after so much of the wait
};

class StillWaiter final : public dlock::Waiter {
 public:
  explicit StillWaiter(Queue& queue) : queue_(queue) {}
  Result<Progress> poll(Duration slice) override {
    if (queue_.silence > 0s) {
      test::machine.sleep(std::exchange(queue_.silence, 0s));
      return fail(Errc::unavailable, "no answer");
    }
    if (Clock::now() - queue_.began > 2h || queue_.answers.size() == 50)
      return fail(Errc::denied, "the test is over");
    test::machine.sleep(slice);
    queue_.answers.push_back(
        std::chrono::duration_cast<std::chrono::minutes>(Clock::now() - queue_.began));
    return Waiting{};
  }
  Result<void> cancel() override { return {}; }

 private:
  Queue& queue_;
};

class StillBackend final : public run::Wrapped {
 public:
  StillBackend(std::unique_ptr<Backend> inner, Queue& queue)
      : Wrapped(std::move(inner)), queue_(queue) {}
  Result<std::unique_ptr<dlock::Waiter>> enqueue(const Request&) override {
    return std::make_unique<StillWaiter>(queue_);
  }

 private:
  Queue& queue_;
};

// Waits once, then answers what the test says.
struct Turn {
  std::function<Result<Progress>()> second;
  bool waited = false;
};

class TurnWaiter final : public dlock::Waiter {
 public:
  explicit TurnWaiter(Turn& turn) : turn_(turn) {}
  Result<Progress> poll(Duration) override {
    return std::exchange(turn_.waited, true) ? turn_.second() : Waiting{};
  }
  Result<void> cancel() override { return {}; }

 private:
  Turn& turn_;
};

class TurnBackend final : public run::Wrapped {
 public:
  TurnBackend(std::unique_ptr<Backend> inner, Turn& turn)
      : Wrapped(std::move(inner)), turn_(turn) {}
  Result<std::unique_ptr<dlock::Waiter>> enqueue(const Request&) override {
    return std::make_unique<TurnWaiter>(turn_);
  }

 private:
  Turn& turn_;
};

// Not freed, as in dlock: the thread of a keeper may still use it.
template <class T>
T& for_ever(T* object) {
  static auto& all = *new std::vector<T*>;  // which leak checkers look at
  all.push_back(object);
  return *object;
}

// The minutes of a wait of two hours in which a keeper looked at its queue and got an answer.
std::vector<int> minutes_of_looks(const run::Say& say, Duration silence) {
  auto& queue = for_ever(new Queue{.silence = silence});
  auto& plan = plan_of("fake:keeper_test_looks");
  plan.say = say;
  plan.open = [&queue, open = plan.open](const Settings& s) -> Result<std::unique_ptr<Backend>> {
    return std::make_unique<StillBackend>(open(s).value(), queue);
  };
  auto& keeper = for_ever(new run::Keeper(plan, for_ever(new run::Output(plan))));
  keeper.start();
  REQUIRE(reports<run::event::WaitEnded>(keeper));
  std::vector<int> minutes;
  for (const auto t : queue.answers) minutes.push_back(static_cast<int>(t.count()));
  return minutes;
}

// Whether the wait ends busy, as Policy decides it by what the keeper reports.
bool ends_busy(Turn& turn, Duration wait) {
  auto& plan = plan_of("fake:keeper_test_end");
  plan.wait = wait;
  plan.open = [&turn, open = plan.open](const Settings& s) -> Result<std::unique_ptr<Backend>> {
    return std::make_unique<TurnBackend>(open(s).value(), turn);
  };
  auto& keeper = for_ever(new run::Keeper(plan, for_ever(new run::Output(plan))));
  run::WaitEnd end(run::wait_rules(plan));
  keeper.start();
  bool leaves = false;
  for (const auto until = std::chrono::steady_clock::now() + 20s;
       std::chrono::steady_clock::now() < until;) {
    for (const auto& e : keeper.events()) {
      if (const auto* begun = std::get_if<run::event::WaitBegan>(&e)) end.begin(begun->at);
      if (const auto* a = std::get_if<run::event::Answered>(&e)) end.answered(a->sent_at);
      if (std::holds_alternative<run::event::NoAnswer>(e)) end.failed();
      if (std::holds_alternative<run::event::WaitLeft>(e)) return end.busy();
    }
    if (!leaves && Clock::now() >= end.over_at()) {
      leaves = true;
      keeper.post({.what = run::Action::Do::leave_queue});
    }
    pollfd p{keeper.fd(), POLLIN, 0};
    ::poll(&p, 1, 10);
  }
  FAIL("the keeper does not leave");
  return false;
}

}  // namespace

// A recipe may prove more of the first ttl than of later ones, so the deadline does not tell when
// the first renewal is due.
TEST_CASE(
    "the first renewal is due by the time of the grant, though the machine slept before the thread "
    "went on") {
  static auto& plan = plan_of("fake:keeper_test");
  static auto* const output = new run::Output(plan);
  static auto* const keeper = new run::Keeper(plan, *output);
  REQUIRE(keeper->try_now());
  test::machine.sleep(12min);
  keeper->start();
  CHECK(reports<run::event::Renewed>(*keeper));
  keeper->post({.what = run::Action::Do::release});
  CHECK(reports<run::event::ReleaseDone>(*keeper));
}

// The supervisor releases a short job's lock itself, before the moment at which it would start the
// thread, which then had a lease that was released.
TEST_CASE("after a release that needed no thread, none is started") {
  static auto& plan = plan_of("fake:keeper_test_release");
  static auto* const output = new run::Output(plan);
  static auto* const keeper = new run::Keeper(plan, *output);
  REQUIRE(keeper->try_now());
  keeper->post({.what = run::Action::Do::release});
  CHECK(reports<run::event::ReleaseDone>(*keeper));
  CHECK(keeper->over());
  keeper->start();
  CHECK_FALSE(keeper->started());
}

// A look costs the store something, and on `file` reads the whole queue, for each of those who wait.
// (On a terminal it comes each second: tests/program/tty.bats.)
TEST_CASE("a waiter looks at its queue when a line about it is due, and each 10 min at least") {
  const Duration silence = GENERATE(0s, 1s);
  CHECK(minutes_of_looks({.log_json = true}, silence) ==
        std::vector{0, 1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120});
}

// The first look is for the status event `waiting`.
TEST_CASE(
    "with -q a waiter looks at its queue soon, then each 10 min, though the first try failed") {
  const Duration silence = GENERATE(0s, 1s);
  CHECK(minutes_of_looks({.quiet = true}, silence) ==
        std::vector{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120});
}

// It may still answer what only reads, so a last look at the holder would find one.
TEST_CASE("what a store said before it refused does not end a wait as busy") {
  const Deadline began = Clock::now();
  auto& turn = for_ever(new Turn{[began]() -> Result<Progress> {
    const auto to_last_second = began + 60s - 500ms - Clock::now();
    if (to_last_second > 0s)
      test::machine.sleep(std::chrono::duration_cast<Duration>(to_last_second));
    return fail(Errc::unavailable, "OOM command not allowed when used memory > 'maxmemory'");
  }});
  CHECK_FALSE(ends_busy(turn, 60s));
}

TEST_CASE("the error of a machine that slept beyond the end of its wait does not hide who holds") {
  auto& turn = for_ever(new Turn{[]() -> Result<Progress> {
    test::machine.sleep(1h);
    return fail(Errc::unavailable, "the connection is stale");
  }});
  CHECK(ends_busy(turn, 60s));
}
