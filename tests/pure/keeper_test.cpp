// SPDX-License-Identifier: Apache-2.0
#include "run/keeper.hpp"
#include <poll.h>
#include <barrier>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>
#include "store/wrapped.hpp"
#include "support/fake_backend.hpp"
#include "support/own_clock.hpp"
#include "util/wait.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

// What `answer` makes of the first report that it has an answer to; nothing after 60 s while the
// machine is awake.
using Answer = std::function<std::optional<bool>(const run::KeeperEvent&)>;
std::optional<bool> first_answer(run::Keeper& keeper, const Answer& answer) {
  for (const auto end = std::chrono::steady_clock::now() + 60s;
       std::chrono::steady_clock::now() < end;) {
    for (const auto& r : keeper.events())
      if (const auto found = answer(r)) return found;
    pollfd p{keeper.fd(), POLLIN, 0};
    ::poll(&p, 1, 10);
  }
  return std::nullopt;
}

template <class Report>
bool reports(run::Keeper& keeper) {
  return first_answer(keeper,
                      [](const auto& r) {
                        return std::holds_alternative<Report>(r) ? std::optional{true}
                                                                 : std::nullopt;
                      })
      .has_value();
}

// Not freed, as in dlock: the thread of a keeper may still use it.
template <class T>
T& for_ever(T* object) {
  static auto& all = *new std::vector<T*>;  // which leak checkers look at
  all.push_back(object);
  return *object;
}

using Wrap = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

run::Plan& plan_of(
    std::string_view store, const Wrap& wrap = [](auto backend) { return backend; }) {
  auto& plan = for_ever(new run::Plan{.request = {.key = Key::parse("k").value()}});
  const Url url = Url::parse(store).value();
  plan.traits = fake::factory.recipes[0];
  plan.open = [open = fake::factory.prepare(url, fake::factory.recipes[0], {}).value(), wrap](
                  Duration op_timeout, int interrupt_fd) -> Result<std::unique_ptr<Backend>> {
    return wrap(open(op_timeout, interrupt_fd).value());
  };
  plan.request.owner = Owner::random();
  plan.request.ttl = 1h;
  plan.timing.proven = 30min;
  plan.timing.renew_every = 10min;
  plan.timing.op_timeout = 1s;
  return plan;
}

run::Keeper& keeper_of(run::Plan& plan) {
  return for_ever(new run::Keeper(plan, for_ever(new run::Output(plan))));
}

// A queue whose answers are the test's.
using Poll = std::function<Result<Progress>(Duration slice)>;
class Queue final : public Wrapped {
 public:
  // `silent`: beside it the store answers nothing.
  Queue(std::unique_ptr<Backend> inner, Poll poll, bool silent)
      : Wrapped(std::move(inner)), poll_(std::move(poll)), silent_(silent) {}
  static Wrap of(const Poll& poll, bool silent = false) {
    return [=](auto inner) { return std::make_unique<Queue>(std::move(inner), poll, silent); };
  }
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    return silent_ ? fail(Errc::unavailable, "no answer in time") : inner_->inspect(key);
  }
  Result<std::unique_ptr<dlock::Waiter>> enqueue(const Request&) override {
    class Place final : public dlock::Waiter {
     public:
      explicit Place(Poll poll) : poll_(std::move(poll)) {}
      Result<Progress> poll(Duration slice) override { return poll_(slice); }
      Result<void> cancel() override { return {}; }

     private:
      Poll poll_;
    };
    return std::make_unique<Place>(poll_);
  }

 private:
  Poll poll_;
  const bool silent_;
};

// The minutes of a wait of two hours in which a keeper got an answer from its queue, in which no
// one moves: each look takes as long as it may, which passes at once.
std::vector<int> minutes_of_looks(const run::OutputOptions& say, Duration silence) {
  struct Looks {
    Duration silence{};  // of the store, before its first answer
    Deadline began = Clock::now();
    std::vector<int> minutes{};
  };
  auto& looks = for_ever(new Looks{.silence = silence});
  auto& plan =
      plan_of("fake:keeper_test_looks", Queue::of([&looks](Duration slice) -> Result<Progress> {
                if (looks.silence > 0s) {
                  test::machine.suspend(std::exchange(looks.silence, 0s));
                  return fail(Errc::unavailable, "no answer");
                }
                if (Clock::now() - looks.began > 2h || looks.minutes.size() == 50)
                  return fail(Errc::denied, "the test is over");
                test::machine.suspend(slice);
                looks.minutes.push_back(static_cast<int>((Clock::now() - looks.began) / 1min));
                return Waiting{.holder = {}, .sent_at = Clock::now()};
              }));
  plan.output = say;
  auto& keeper = keeper_of(plan);
  keeper.start();
  REQUIRE(reports<run::event::WaitEnded>(keeper));
  return looks.minutes;
}

// Whether a wait of a minute ends busy, as Policy decides it by what the keeper reports, where the
// second look at the queue has this answer.
bool ends_busy(const std::function<Result<Progress>()>& second, bool silent = false) {
  auto& plan = plan_of("fake:keeper_test_end",
                       Queue::of(
                           [second, waited = false](Duration) mutable -> Result<Progress> {
                             if (std::exchange(waited, true)) return second();
                             return Waiting{.holder = {}, .sent_at = Clock::now()};
                           },
                           silent));
  plan.wait = 60s;
  auto& keeper = keeper_of(plan);
  run::WaitEnd end(run::wait_rules(plan));
  keeper.start();
  bool leaves = false;
  for (const auto until = std::chrono::steady_clock::now() + 20s;
       std::chrono::steady_clock::now() < until;) {
    for (const auto& e : keeper.events()) {
      end.observe(e);
      if (std::holds_alternative<run::event::WaitLeft>(e)) return end.busy();
    }
    if (!leaves && Clock::now() >= end.over_at()) {
      leaves = true;
      keeper.post(run::action::LeaveQueue{});
    }
    pollfd p{keeper.fd(), POLLIN, 0};
    ::poll(&p, 1, 10);
  }
  FAIL("the keeper does not leave");
  return false;
}

// All of them read the last start before the first notes its own.
class ReadsTogether final : public Wrapped {
 public:
  ReadsTogether(std::unique_ptr<Backend> inner, std::barrier<>& together)
      : Wrapped(std::move(inner)), together_(together) {}
  Result<RunStarts> starts(const Key& k) override {
    auto s = inner_->starts(k);
    if (!std::exchange(read_, true)) together_.arrive_and_wait();
    return s;
  }

 private:
  std::barrier<>& together_;
  bool read_ = false;
};

}  // namespace

// A recipe may prove more of the first ttl than of later ones, so the deadline does not tell when
// the first renewal is due.
TEST_CASE(
    "the first renewal is due by the time of the grant, though the machine slept before the thread "
    "went on") {
  auto& keeper = keeper_of(plan_of("fake:keeper_test"));
  REQUIRE(keeper.try_now());
  test::machine.suspend(12min);
  keeper.start();
  CHECK(reports<run::event::Renewed>(keeper));
  keeper.post(run::action::Release{});
  CHECK(reports<run::event::ReleaseDone>(keeper));
}

// The supervisor releases a short job's lock itself, before the moment at which it would start the
// thread, which then had a lease that was released.
TEST_CASE("after a release that needed no thread, none is started") {
  auto& keeper = keeper_of(plan_of("fake:keeper_test_release"));
  REQUIRE(keeper.try_now());
  keeper.post(run::action::Release{});
  CHECK(reports<run::event::ReleaseDone>(keeper));
  CHECK(keeper.over());
  keeper.start();
  CHECK_FALSE(keeper.started());
}

// A look costs the store something, and on `file` reads the whole queue, for each one who waits.
// (On a terminal it comes each second: tests/program/tty_test.py.)
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
  CHECK_FALSE(ends_busy([began = Clock::now()]() -> Result<Progress> {
    const auto to_last_second = began + 60s - 500ms - Clock::now();
    if (to_last_second > 0s)
      test::machine.suspend(std::chrono::duration_cast<Duration>(to_last_second));
    return fail(Errc::unavailable, "OOM command not allowed when used memory > 'maxmemory'");
  }));
}

// As a statement that waits in a server: it goes on between two polls.
TEST_CASE("what brings no answer does not end a wait as busy, if the store does not answer") {
  const bool silent = GENERATE(true, false);
  CHECK(ends_busy(
            [began = Clock::now()]() -> Result<Progress> {
              const auto to_last_second = began + 60s - 500ms - Clock::now();
              if (to_last_second > 0s)
                test::machine.suspend(std::chrono::duration_cast<Duration>(to_last_second));
              ::poll(nullptr, 0, 10);
              return Waiting{};
            },
            silent) != silent);
}

TEST_CASE(
    "a store that was never reached: no pause is longer than it is tried, and what the last try, "
    "without any time, did not see does not hide the reason") {
  struct Tries {
    const Deadline began = Clock::now();
    int made = 0;
    Deadline pause{};
    Clock::duration paused{};
  };
  auto& tries = for_ever(new Tries);
  auto& plan = plan_of("fake:keeper_test_pause", Queue::of([&tries](Duration) -> Result<Progress> {
                         if (++tries.made == 6) {  // then a pause lasts for a second at least
                           const auto to_end = tries.began + 1h - 200ms - Clock::now();
                           test::machine.suspend(std::chrono::duration_cast<Duration>(to_end));
                           tries.pause = Clock::now();
                         }
                         if (tries.made == 7) tries.paused = Clock::now() - tries.pause;
                         return fail(Errc::unavailable,
                                     tries.made == 7 ? "no answer in time" : "Connection refused");
                       }));
  plan.connect_timeout = 1h;
  auto& keeper = keeper_of(plan);
  keeper.start();
  CHECK(first_answer(keeper, [](const auto& r) -> std::optional<bool> {
          const auto* ended = std::get_if<run::event::WaitEnded>(&r);
          return ended ? std::optional{ended->message == "Connection refused"} : std::nullopt;
        }) == true);
  CHECK(tries.made == 7);
  CHECK(tries.paused < 800ms);
}

TEST_CASE("a limit of waiters asks at once, but a store in its grace not without a pause") {
  struct Looks {
    std::vector<Duration> slices{};
  };
  auto& looks = for_ever(new Looks);
  class InGrace final : public Wrapped {
   public:
    InGrace(std::unique_ptr<Backend> inner, Poll poll)
        : Wrapped(std::make_unique<Queue>(std::move(inner), std::move(poll), false)) {}
    Health health() override { return {.in_grace_period = true}; }
  };
  const Poll poll = [&looks](Duration slice) -> Result<Progress> {
    looks.slices.push_back(slice);
    if (looks.slices.size() == 5) return fail(Errc::denied, "the test is over");
    test::machine.suspend(slice);
    return Waiting{.ahead = 9, .sent_at = Clock::now()};
  };
  auto& plan = plan_of("fake:keeper_test_grace", [&poll](auto inner) {
    return std::make_unique<InGrace>(std::move(inner), poll);
  });
  plan.max_waiters = 3;
  auto& keeper = keeper_of(plan);
  keeper.start();
  REQUIRE(reports<run::event::WaitEnded>(keeper));
  REQUIRE(looks.slices.size() == 5);
  CHECK(looks.slices[0] == 0s);
  for (std::size_t i = 1; i < looks.slices.size(); ++i) CHECK(looks.slices[i] > 0s);
}

TEST_CASE("the error of a machine that slept beyond the end of its wait does not hide who holds") {
  CHECK(ends_busy([]() -> Result<Progress> {
    test::machine.suspend(1h);
    return fail(Errc::unavailable, "the connection is stale");
  }));
}

TEST_CASE("--once-per: of readers or permits that read the same, one starts; a lost reply or not") {
  constexpr int keepers = 4;
  struct {
    Mode mode;
    const char* url;
  } const cells[] = {{Mode::shared, "fake:starts_shared"},
                     {Mode::permit, "fake:starts_permits"},
                     {Mode::permit, "fake:starts_lost?lose=note"}};
  const auto may_start = [](const run::KeeperEvent& r) -> std::optional<bool> {
    if (std::holds_alternative<run::event::Acquired>(r)) return true;
    const auto* e = std::get_if<run::event::WaitEnded>(&r);
    if (!e) return std::nullopt;
    CAPTURE(e->message);
    CHECK(e->busy);
    return false;
  };
  for (const auto& cell : cells) {
    CAPTURE(cell.url);
    auto& together = for_ever(new std::barrier<>(keepers));
    std::vector<run::Keeper*> all;
    for (int i = 0; i < keepers; ++i) {
      auto& plan = plan_of(cell.url, [&together](auto inner) {
        return std::make_unique<ReadsTogether>(std::move(inner), together);
      });
      plan.request.mode = cell.mode;
      if (cell.mode == Mode::permit) plan.request.limit = keepers;
      plan.once_per = run::OncePer::parse("1h").value();
      all.push_back(&keeper_of(plan));
      all.back()->start();
    }
    int started = 0;
    for (run::Keeper* keeper : all) {
      const auto may = first_answer(*keeper, may_start);
      REQUIRE(may);
      started += *may;
    }
    CHECK(started == 1);
  }
}

TEST_CASE("--once-per: a start that was none, and stays noted, does not stop its own dlock") {
  class EndsEarly final : public Wrapped {  // before the start can be withdrawn
   public:
    using Wrapped::Wrapped;
    Result<UpdateResult> note_start(const Lease& lease, const RunStartUpdate& change) override {
      return change.is ? inner_->note_start(lease, change) : UpdateResult::not_held;
    }
  };
  auto& plan = plan_of("fake:keeper_test_was_none",
                       [](auto inner) { return std::make_unique<EndsEarly>(std::move(inner)); });
  plan.once_per = run::OncePer::parse("1h").value();
  const auto may_start = [&](run::Keeper& keeper) {
    return first_answer(keeper, [](const auto& r) -> std::optional<bool> {
      if (std::holds_alternative<run::event::WaitEnded>(r)) return false;
      return std::holds_alternative<run::event::Acquired>(r) ? std::optional{true} : std::nullopt;
    });
  };
  auto& keeper = keeper_of(plan);
  keeper.start();
  CHECK(may_start(keeper) == true);
  keeper.post(run::action::QueueAgain{});
  CHECK(may_start(keeper) == true);
  keeper.post(run::action::LeaveQueue{});
  CHECK(reports<run::event::WaitLeft>(keeper));
  auto& other = keeper_of(plan);
  other.start();
  CHECK(may_start(other) == false);
}

TEST_CASE("the end of the program goes with the next renewal, and again until that is answered") {
  struct Seen {
    std::vector<std::string> ended{};
    bool goes_on = false;  // a renewal without it followed
  };
  class Recorded final : public Wrapped {
   public:
    Recorded(std::unique_ptr<Backend> inner, Seen& seen) : Wrapped(std::move(inner)), seen_(seen) {}
    Result<Renewal> renew(const Lease& lease, Duration ttl) override {
      if (lease.ended.empty()) seen_.goes_on |= !seen_.ended.empty();
      else seen_.ended.push_back(lease.ended);
      if (seen_.ended.size() == 1) return fail(Errc::timed_out, "the reply was lost");
      return inner_->renew(lease, ttl);
    }

   private:
    Seen& seen_;
  };
  auto& seen = for_ever(new Seen);
  auto& plan = plan_of("fake:keeper_test_ended", [&seen](auto inner) {
    return std::make_unique<Recorded>(std::move(inner), seen);
  });
  plan.timing.renew_every = 20ms;
  auto& keeper = keeper_of(plan);
  keeper.start();
  REQUIRE(reports<run::event::Acquired>(keeper));
  keeper.note_end({1, {false, 3}, {{12, "sshd"}}});
  // The keeper writes before its report, which is read under its mutex.
  REQUIRE(first_answer(keeper, [&seen](const auto& r) {
    const bool renewed = std::holds_alternative<run::event::Renewed>(r);
    return renewed && seen.goes_on ? std::optional{true} : std::nullopt;
  }));
  CHECK(seen.ended == std::vector<std::string>{"ended=1.3&left=12.sshd", "ended=1.3&left=12.sshd"});
}
