// SPDX-License-Identifier: Apache-2.0
// A process that stands still at any moment: others wait a bounded time, are told why, and are never let in beside it.
#include <fmt/format.h>
#include <sys/mman.h>
#include <atomic>
#include "contract/file/lease_files.hpp"
#include "contract/file/traced.hpp"

using namespace dlock;
using namespace dlock::contract;

TEST_CASE("halted at any system call of acquire and release: nobody gets in beside it, nobody waits longer than asked") {
  try {
    test::TempDir dir;
    auto& inside = *new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<bool>;
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
    fmt::print("{} halts: {} in the middle of a change, {} busy, {} free\n", steps, blocked, busy, granted);
    CHECK(child.finish() == 0);
    CHECK(blocked > 0);
    CHECK(busy > 0);
    CHECK(granted > 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a stopped head of the queue loses its place after the claim time, and is served when it goes on") {
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
    const Granted passed = take(*waiter);  // not for ever behind one that stands still
    CHECK(passed.lease.token > held.lease.token);
    CHECK(second->release(passed.lease).value() == Released::yes);
    CHECK(first.finish() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}
