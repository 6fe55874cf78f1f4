// SPDX-License-Identifier: Apache-2.0
// A process that is stopped at any moment: others wait a bounded time, are told why, and get no
// lock that it holds.
#include <fmt/format.h>
#include <sys/mman.h>
#include <atomic>
#include "contract/file/lease_files.hpp"
#include "contract/file/traced.hpp"

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

TEST_CASE("the state is deleted at any moment of an acquisition: never two holders") {
  try {
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
      (void)::unlink(state_of(dir.path()).c_str());
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

TEST_CASE(
    "halted in an acquisition: the state is deleted, its holder writes it again and dies, and the "
    "lock is free") {
  try {
    for (int steps = 0, more = 1; more; ++steps) {
      test::TempDir dir;
      Traced holder([&](const std::function<void()>& halt) {
        auto* const b = open_in(dir.path()).release();  // it ends as a killed one does
        const Granted g = take(*b, request("k"));
        halt();
        b->renew(g.lease, 30s).value();
      });
      Traced child([&](const std::function<void()>& halt) {
        const auto b = open_in(dir.path());
        halt();
        free_now(*b, request("k"));
      });
      for (int i = 0; i < steps && more; ++i) more = child.step();
      (void)::unlink(state_of(dir.path()).c_str());
      REQUIRE(holder.finish() == 0);
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
