// SPDX-License-Identifier: Apache-2.0
// A process that is stopped at any moment: others wait a bounded time, are told why, and get no
// lock that it holds.
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include "stores/file/lease_files.hpp"
#include "stores/file/traced.hpp"

using namespace dlock;
using namespace dlock::contract;

TEST_CASE(
    "halted at any system call of acquire and release: no second holder, and no wait is longer "
    "than asked") {
  try {
    test::TempDir dir;
    auto& inside =
        *new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
            std::atomic<bool>;
    Traced child([&](const std::function<void()>& halt) {
      const auto b = open_in(dir.path());
      halt();
      const Granted g = take(*b, request("k"));
      inside = true;
      ::getppid();  // a halt with the lock held
      inside = false;
      b->release(g.lease).value();
    });
    int blocked = 0, busy = 0, granted = 0, steps = 0;
    for (; child.step(); ++steps) {
      const auto other = open_in(dir.path(), 30ms);
      Request r = impatient(request("k"));
      auto w = other->enqueue(r).value();
      auto answer = w->poll(30s);
      if (!answer) {
        ++blocked;
        CHECK(answer.error().code == Errc::unavailable);
        CHECK_THAT(answer.error().message, Catch::Contains("frozen or stopped"));
      } else if (auto* g = std::get_if<Granted>(&*answer)) {
        ++granted;
        CHECK_FALSE(inside);
        CHECK(other->release(g->lease).value() == Released::yes);
      } else {
        ++busy;
      }
    }
    fmt::print("{} halts: {} in the middle of a change, {} busy, {} free\n", steps, blocked, busy,
               granted);
    CHECK(child.finish() == 0);
    CHECK(blocked > 0);
    CHECK(busy > 0);
    CHECK(granted > 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("the state is deleted or renamed at any moment of an acquisition: never two holders") {
  try {
    const bool renamed = GENERATE(false, true);
    int both_tried = 0;
    for (int steps = 0, more = 1; more; ++steps) {
      test::TempDir dir;
      struct Shared {
        std::atomic<bool> granted, done;
      };
      auto& child_is = *new (
          ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
      const Event go;
      // Larger tokens than a new state begins with: equal ones alone would stop the second holder.
      for (int i = 0; i < 3; ++i) REQUIRE(free_now(*open_in(dir.path()), request("k")));
      Traced child([&](const std::function<void()>& halt) {
        const auto b = open_in(dir.path());
        halt();
        auto w = b->enqueue(impatient(request("k"))).value();
        const auto answer = w->poll(0s);
        child_is.granted = answer && std::holds_alternative<Granted>(*answer);
        child_is.done = true;
        std::uint64_t told = 0;
        if (::read(go.fd(), &told, sizeof told) < 0) ::pause();  // holds until it is killed
      });
      for (int i = 0; i < steps && more; ++i) more = child.step() && !child_is.done;
      const std::string state = state_of(dir.path());
      (void)(renamed ? ::rename(state.c_str(), (state + ".old").c_str()) : ::unlink(state.c_str()));
      const auto other = open_in(dir.path(), 10ms);
      auto w = other->enqueue(impatient(request("k"))).value();
      auto answer = w->poll(30s);
      const bool ours = answer && std::holds_alternative<Granted>(*answer);
      while (!child_is.done && child.step()) {}
      INFO("step " << steps);
      CHECK_FALSE((ours && child_is.granted));
      both_tried += ours || child_is.granted;
      child.kill();
      ::munmap(&child_is, 4096);
      REQUIRE(steps < 1000);
    }
    CHECK(both_tried > 10);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("the directory of a key is deleted at any moment of an acquisition: no error") {
  try {
    for (int steps = 0, more = 1; more; ++steps) {
      test::TempDir dir;
      const std::string key_dir = dir / "k";
      Traced child([&](const std::function<void()>& halt) {
        const auto b = open_in(dir.path());
        halt();
        if (!free_now(*b, request("k"))) throw std::runtime_error("not free");
      });
      for (int i = 0; i < steps && more; ++i) more = child.step();
      std::filesystem::remove_all(key_dir);
      INFO("step " << steps);
      CHECK(child.finish() == 0);
      REQUIRE(steps < 1000);
    }
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("the state is deleted in a release of another's lock: what it answers is true") {
  try {
    const bool forced = GENERATE(false, true);
    int before = 0;
    for (bool more = true; more; ++before) {
      test::TempDir dir;
      const auto holder = open_in(dir.path());
      const Granted held = take(*holder, request("k"));
      Traced child([&](const std::function<void()>& halt) {
        const auto b = open_in(dir.path());
        halt();
        const auto released = forced ? b->force_release(key("k"), {}) : b->release(held.lease);
        ::_exit(released.value() == Released::yes ? 1 : 0);
      });
      for (int i = 0; i < before && more; ++i) more = child.step();
      if (holder->inspect(key("k")).value()->holders.empty()) break;  // it is released
      (void)::unlink(state_of(dir.path()).c_str());
      const bool released = child.finish() == 1;
      INFO("step " << before);
      CHECK(lost(holder->renew(held.lease, 30s)) == released);
    }
    CHECK(before > 10);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE(
    "a deleted state and its successor give the same number: never two holders, and none that is "
    "dead") {
  try {
    struct Shared {
      std::atomic<bool> granted, done;
    };
    auto* const shared = static_cast<Shared*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const auto once = [](const std::string& dir, Shared& is) {
      return [&dir, &is](const std::function<void()>& halt) {
        const auto b = open_in(dir);
        halt();
        auto w = b->enqueue(impatient(request("k"))).value();
        const auto answer = w->poll(0s);
        is.granted = answer && std::holds_alternative<Granted>(*answer);
        is.done = true;
        ::pause();  // holds until it is killed
      };
    };
    const auto until_done = [](Traced& who, const Shared& is) {
      while (!is.done && who.step()) {}
    };
    // Steps of an acquisition, until it has made its FIFO: of the first contender, and of another
    // when that one is stopped just before.
    int until_made = 0, others_until_made = 0;
    {
      test::TempDir dir;
      // What is read only once is known to every child: all make the same steps.
      REQUIRE(free_now(*open_in(dir / "before"), request("k")));
      const auto until_there = [&](Traced& who, int& steps) {
        for (; ::access((dir.path() + "/k/1").c_str(), F_OK); ++steps) REQUIRE(who.step());
      };
      Traced rehearsal(once(dir.path(), *new (shared) Shared{}));
      until_there(rehearsal, until_made);
      REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
      REQUIRE(::unlink((dir.path() + "/k/1").c_str()) == 0);
      Traced other(once(dir.path(), *new (shared + 1) Shared{}));
      until_there(other, others_until_made);
    }
    int both_tried = 0;
    // True: the other one had ended before. `twice`: the state is deleted once more then.
    const auto race = [&](int steps, int late_steps, bool other_dies, bool twice = false) {
      test::TempDir dir;
      Shared& late_is = *new (shared) Shared{};
      Shared& other_is = *new (shared + 1) Shared{};
      Traced late(once(dir.path(), late_is)), other(once(dir.path(), other_is));
      for (int i = 0; i < until_made - 1; ++i) REQUIRE(late.step());
      REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
      bool more = true;
      for (int i = 0; i < steps && more; ++i) more = other.step() && !other_is.done;
      // The first one makes its FIFO, if there is none.
      for (int i = 0; i < late_steps && !late_is.done; ++i) REQUIRE(late.step());
      until_done(other, other_is);
      if (other_dies) other.kill();
      if (twice) (void)::unlink(state_of(dir.path()).c_str());
      until_done(late, late_is);
      INFO("step " << steps << ", then " << late_steps << (other_dies ? ", it dies" : ""));
      if (other_dies) CHECK(late_is.granted);
      else CHECK_FALSE((late_is.granted && other_is.granted));
      both_tried += late_is.granted || other_is.granted;
      late.kill();
      other.kill();
      CHECK(free_now(*open_in(dir.path()), request("k")));
      return !more;
    };
    for (const bool dies : {false, true}) {
      for (int steps = 0; !race(steps, 1, dies); ++steps) REQUIRE(steps < 1000);
      for (int steps = others_until_made - 1; steps < others_until_made + 2; ++steps)
        for (int late_steps = 2; late_steps < 9; ++late_steps) race(steps, late_steps, dies);
    }
    for (int steps = 0; !race(steps, 1, false, true); ++steps) REQUIRE(steps < 1000);
    CHECK(both_tried > 10);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE(
    "halted in an acquisition: the state is deleted, a holder of its successor dies, and the lock "
    "is free") {
  try {
    const bool held_before = GENERATE(true, false);
    for (int steps = 0, more = 1; more; ++steps) {
      test::TempDir dir;
      const auto hold = [&](const std::function<void()>& halt) {
        auto* const b = open_in(dir.path()).release();  // it ends as a killed one does
        auto* const w = b->enqueue(impatient(request("k"))).value().release();
        const auto answer = w->poll(0s).value();
        halt();
        if (const auto* g = std::get_if<Granted>(&answer)) b->renew(g->lease, 30s).value();
      };
      std::optional<Traced> holder;
      if (held_before) holder.emplace(hold);
      Traced child([&](const std::function<void()>& halt) {
        const auto b = open_in(dir.path());
        halt();
        free_now(*b, request("k"));
      });
      for (int i = 0; i < steps && more; ++i) more = child.step();
      (void)::unlink(state_of(dir.path()).c_str());
      if (!held_before) holder.emplace(hold);
      REQUIRE(holder->finish() == 0);
      INFO("step " << steps);
      REQUIRE((!more || child.finish() == 0));
      CHECK(free_now(*open_in(dir.path()), request("k")));
      REQUIRE(steps < 1000);
    }
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE(
    "a stopped queue head loses its place after the claim time, and is granted when it continues") {
  try {
    test::TempDir dir;
    const file::Tuning tuning{.claim = 200'000, .safety = 100'000};
    const auto holder = open_in(dir.path(), 5s, tuning), second = open_in(dir.path(), 5s, tuning);
    const Granted held = take(*holder, request("k"));
    Traced first([&](const std::function<void()>& halt) {
      const auto b = open_in(dir.path(), 5s, tuning);
      auto w = in_queue(*b, request("k"));
      halt();
      b->release(take(*w).lease).value();
    });
    auto waiter = in_queue(*second, request("k"));
    REQUIRE(holder->release(held.lease).value() == Released::yes);
    const Granted passed = take(*waiter);  // not blocked for ever behind a stopped head
    CHECK(passed.lease.token > held.lease.token);
    CHECK(second->release(passed.lease).value() == Released::yes);
    CHECK(first.finish() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE(
    "a dead holder behind which the queue head is stopped: found by the next, and not named") {
  try {
    test::TempDir dir;
    const file::Tuning tuning{.claim = 200'000, .safety = 100'000};
    const auto second = open_in(dir.path(), 5s, tuning);
    std::optional<Traced> holder;
    holder.emplace([&](const std::function<void()>& halt) {
      const auto b = open_in(dir.path(), 5s, tuning);
      Request r = request("k");
      r.identity.host = "dead";
      take(*b, r);
      halt();
      ::pause();
    });
    Traced first([&](const std::function<void()>& halt) {
      const auto b = open_in(dir.path(), 5s, tuning);
      Request r = request("k");
      r.identity.host = "first";
      auto w = in_queue(*b, r);
      halt();
      b->release(take(*w).lease).value();
    });
    const bool joined_before = GENERATE(true, false);
    const auto wait = [&] { return second->enqueue(request("k")).value(); };
    auto waiter = wait();
    if (joined_before) {
      const auto seen = std::get<Waiting>(step(*waiter, 0s));
      REQUIRE(seen.holder);
      CHECK(seen.holder->who.host == "dead");
    }
    holder.reset();
    const auto seen = std::get<Waiting>(step(*waiter, 1ms));
    REQUIRE_FALSE(seen.holder);
    CHECK_THAT(seen.why, Catch::StartsWith("first:") && Catch::Contains("is next"));
    CHECK(second->release(take(*waiter).lease).value() == Released::yes);
    CHECK(first.finish() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

namespace {

// The lock of the state of a key, in the hands of a process that does not go on.
Fd locked_state(const std::string& dir) {
  REQUIRE(free_now(*open_in(dir), request("k")));
  Fd state(::open(state_of(dir).c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(state.get(), LOCK_EX | LOCK_NB) == 0);
  return state;
}

}  // namespace

TEST_CASE("a state that is locked: an interrupted wait has no answer, and a single try takes 1 s") {
  test::TempDir dir;
  const Fd locked = locked_state(dir.path());
  const Event interrupt;
  Settings s;
  s.op_timeout = 1500ms;
  s.interrupt_fd = interrupt.fd();
  const auto b = file::open_lease(dir.path(), s, {});
  const auto once = b->enqueue(impatient(request("k"))).value();
  const auto tried = once->poll(0s);
  REQUIRE_FALSE(tried);
  CHECK_THAT(tried.error().message, Catch::Contains("for 1000 ms by process"));
  CHECK(once->cancel());  // nothing to undo, so nothing to wait for
  interrupt.set();
  const auto w = b->enqueue(request("k")).value();
  const auto seen = std::get<Waiting>(step(*w, 10s));
  CHECK(b->health().in_grace_period);
  CHECK_THAT(seen.why, Catch::Contains("locked by another process"));
  CHECK(w->cancel());
}

TEST_CASE("a state that is locked is looked at all the same") {
  test::TempDir dir;
  const auto b = open_in(dir.path(), 50ms);
  const Granted g = take(*b, request("k"));
  const std::int64_t at = b->starts(key("k")).value().now;
  const RunStart start{at, at + Duration{1h}.count()};
  REQUIRE(b->note_start(g.lease, {{}, start}).value() == UpdateResult::yes);
  const Fd locked(::open(state_of(dir.path()).c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(locked.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(b->inspect(key("k")).value()->holders.size() == 1);
  const auto starts = b->starts(key("k"));
  REQUIRE(starts);
  CHECK(starts->last == start);
}

TEST_CASE("the notes of a deleted state and of its successor do not meet") {
  try {
    const auto notes = [](const std::string& dir, std::int64_t at, Duration ttl) {
      return [&dir, at, ttl](const std::function<void()>& halt) {
        const auto b = open_in(dir, 50ms);
        const Granted g = take(*b, detached(request("k"), ttl));
        halt();
        const auto was = b->starts(key("k"));
        if (!was) ::_exit(2);
        const auto noted =
            b->note_start(g.lease, {was->last, RunStart{at, at + Duration{1h}.count()}});
        ::_exit(!noted ? 2 : *noted == UpdateResult::yes ? 0 : 1);
      };
    };
    const std::int64_t now = wall_micros();
    int met = 0;
    for (int steps = 0, more = 1; more; ++steps) {
      test::TempDir dir;
      Traced late(notes(dir.path(), now - 1000, 1h));
      for (int i = 0; i < steps && more; ++i) more = late.step();
      if (!more) break;
      REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
      const auto temporaries = [&] {
        const auto names = files_of(dir.path());
        return std::count_if(names.begin(), names.end(),
                             [](const std::string& n) { return n.starts_with("started.new"); });
      };
      const bool begun = temporaries() > 0;
      Traced other(notes(dir.path(), now, 1h));
      for (int i = 0; i < 15 && begun && other.step(); ++i)
        if (const auto n = temporaries(); n == 2 || (n == 1 && i > 6)) break;
      late.finish();
      INFO("step " << steps);
      const int end = other.finish();
      const auto starts = open_in(dir.path())->starts(key("k"));
      REQUIRE(starts);
      REQUIRE(starts->last);
      // or it was told that there is another start since
      CHECK(end == (starts->last->at == now ? 0 : 1));
      met += begun;
      REQUIRE(steps < 1000);
    }
    CHECK(met > 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}
