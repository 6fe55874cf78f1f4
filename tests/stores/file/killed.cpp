// SPDX-License-Identifier: Apache-2.0
// kill -9 before every single system call of each operation: the key is free for the next
// contender, tokens rise, no files pile up.
#include <fmt/format.h>
#include <algorithm>
#include "stores/file/lease_files.hpp"
#include "stores/file/traced.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

constexpr Duration short_ttl = 100ms;

// With room for one waiter in a slot, the second is written into the tail.
file::Tuning tuning;
std::unique_ptr<Backend> open_here(const std::string& dir) { return open_in(dir, 5s, tuning); }

// What the other processes do around the one that is killed.
struct Others {
  std::string dir;
  std::unique_ptr<Backend> holder = open_here(dir), waiting = open_here(dir);
  std::optional<Lease> held;
  std::unique_ptr<Waiter> queued;
  std::unique_ptr<Backend> behind_waiting = open_here(dir);
  std::unique_ptr<Waiter> behind;  // after `queued`
};

using Halt = std::function<void()>;
struct Operation {
  const char* name;
  std::function<void(Others&)> before;                            // when the child exists
  std::function<void(const std::string& dir, const Halt&)> body;  // in the child
  std::function<void(Others&)> halted;                            // before the child begins
  std::function<void(Others&)> after;                             // when it is dead
};

void nothing(Others&) {}
void hold(Others& o) { o.held = take(*o.holder, request("k")).lease; }
void let_go(Others& o) {
  if (o.held) (void)o.holder->release(*o.held).value();
}
void queue(Others& o) { o.queued = in_queue(*o.waiting, request("k")); }
void queue_two(Others& o) {
  queue(o);
  o.behind = in_queue(*o.behind_waiting, request("k"));
}
void hold_and_queue(Others& o) {
  hold(o);
  queue(o);
}
void queue_and_let_go(Others& o) {
  queue(o);
  let_go(o);
}
void queue_two_and_let_go(Others& o) {
  queue_two(o);
  let_go(o);
}

void acquire_and_release(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  halt();
  b->release(take(*b, request("k")).lease).value();
}
void release(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  const Granted g = take(*b, request("k"));
  halt();
  b->release(g.lease).value();
}
void release_after_a_job(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  const Granted g = take(*b, request("k"));
  halt();
  b->release(g.lease, RunEnd{false, 3}).value();
}
void queue_and_give_up(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  halt();
  if (!in_queue(*b, request("k"))->cancel()) throw std::runtime_error("cancel");
}
void take_the_turn(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  auto w = in_queue(*b, request("k"));
  halt();
  b->release(take(*w).lease).value();
}
void detached_lease(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  halt();
  const Granted g = take(*b, detached(request("k"), short_ttl));
  b->renew(g.lease, short_ttl).value();
  b->release(g.lease).value();
}
void detach(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  const Granted g = take(*b, request("k"));
  halt();
  b->detach(g.lease, short_ttl).value();
}
void force(const std::string& dir, const Halt& halt) {
  const auto b = open_here(dir);
  halt();
  b->force_release(key("k"), std::nullopt).value();
}

const Operation operations[] = {
    {"acquire and release", nothing, acquire_and_release, nothing, nothing},
    {"release with a waiter behind", nothing, release, queue, nothing},
    {"release after a job", nothing, release_after_a_job, nothing, nothing},
    {"queue and give up", hold, queue_and_give_up, nothing, let_go},
    {"queue as the second and give up", hold_and_queue, queue_and_give_up, nothing, let_go},
    {"release with two waiters behind", nothing, release, queue_two, nothing},
    {"first of three in the queue, called and granted", hold, take_the_turn, queue_two_and_let_go,
     nothing},
    {"first in the queue, called and granted", hold, take_the_turn, queue_and_let_go, nothing},
    {"a detached lease: take, renew, release", nothing, detached_lease, nothing, nothing},
    {"detach", nothing, detach, queue, nothing},
    {"forced release", hold, force, nothing, let_go},
};

}  // namespace

TEST_CASE("killed at any system call of an operation") {
  tuning = {};
  if (GENERATE(false, true)) tuning.queue = {.waiters = 1, .gone = 1, .free = 0};
  try {
    for (const Operation& operation : operations) {
      test::TempDir dir;
      FencingToken newest = 0;
      Duration longest{};
      int steps = 0;
      for (bool ended = false; !ended; ++steps) {
        Others others{dir.path()};
        operation.before(others);
        Traced child([&](const Halt& halt) { operation.body(dir.path(), halt); });
        operation.halted(others);
        for (int i = 0; i < steps && !ended; ++i) ended = !child.step();
        child.kill();
        operation.after(others);
        INFO(operation.name << ", step " << steps);
        if (!others.queued) others.queued = others.waiting->enqueue(request("k")).value();
        const Deadline begun = Clock::now();
        const Granted next = take(*others.queued);
        longest = std::max(longest, std::chrono::duration_cast<Duration>(Clock::now() - begun));
        CHECK(next.lease.token > newest);
        newest = next.lease.token;
        CHECK(others.waiting->release(next.lease).value() == Released::yes);
        if (others.behind) {
          const Granted last = take(*others.behind);
          CHECK(last.lease.token > newest);
          newest = last.lease.token;
          CHECK(others.behind_waiting->release(last.lease).value() == Released::yes);
        }
        REQUIRE(steps < 1000);
      }
      fmt::print("{}: killed at {} moments; next grant after at most {:.1f} ms\n", operation.name,
                 steps - 1, static_cast<double>(longest.count()) / 1000);
      // an unclaimed invitation is passed on after 2 s; a death is noticed before
      CHECK(longest < 2s);
      CHECK(steps > 10);
      // What a killed process left is removed by the sweep that comes with each 1024th ticket.
      const auto sweeper = open_here(dir.path());
      for (int i = 0; i < 1024; ++i)
        REQUIRE(sweeper->release(take(*sweeper, request("k")).lease).value() == Released::yes);
      const auto left = files_of(dir.path());
      if (std::find(left.begin(), left.end(), "last") == left.end()) {
        CHECK(left == std::vector<std::string>{"state"});
        continue;
      }
      const Granted g =
          take(*sweeper, request("k"));  // the next job's record takes the place of both
      REQUIRE(sweeper->release(g.lease, RunEnd{false, 4}).value() == Released::yes);
      auto kept = files_of(dir.path());
      std::sort(kept.begin(), kept.end());
      CHECK(kept == std::vector<std::string>{"last", "state"});
      CHECK(sweeper->inspect(key("k")).value()->last_run->end.value == 4);
    }
  } catch (const Skip& skip) { note_skip(skip.why); }
}
