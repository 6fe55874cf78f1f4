// SPDX-License-Identifier: Apache-2.0
// Loops that fault tests share.
#pragma once
#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include "store/factory.hpp"

namespace dlock::test {

inline Settings quick(Duration op_timeout = std::chrono::milliseconds{500},
                      Duration connect_timeout = std::chrono::seconds{1}) {
  Settings s;
  s.op_timeout = op_timeout;
  s.connect_timeout = connect_timeout;
  return s;
}

// Looks until it is true, or `bound` has passed.
template <class Condition>
bool becomes(Condition condition, Duration bound = std::chrono::seconds{60}) {
  for (const Deadline end = later(Clock::now(), bound); Clock::now() < end; ::usleep(1000))
    if (condition()) return true;
  return false;
}
// Polls once; again while that is not answered, as by a server on a busy machine.
inline bool waits(Waiter& w, Duration slice = std::chrono::milliseconds{20}) {
  Result<Progress> p = w.poll(slice);
  for (const Deadline end = later(Clock::now(), std::chrono::seconds{30});
       !p && retryable(p.error().code) && Clock::now() < end; p = w.poll(slice))
    ::usleep(20'000);
  if (!p) FAIL(p.error().message);
  return std::holds_alternative<Waiting>(*p);
}

// Polls until granted, through retryable errors; fails after `bound`.
inline Lease granted_within(Waiter& w, Duration bound = std::chrono::seconds{60}) {
  const Deadline until = later(Clock::now(), bound);
  Error last{Errc::internal, "never polled"};
  while (Clock::now() < until) {
    const auto p = w.poll(std::chrono::duration_cast<Duration>(until - Clock::now()));
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
    if (!p) {
      last = p.error();
      INFO(last.message);
      REQUIRE(retryable(last.code));
      ::usleep(20'000);
    }
  }
  FAIL("not granted in time: " << last.message);
  throw 0;
}

// Whether `call` ends within `bound` at one of five tries: a busy machine may delay it once, and what
// waits for too long does so each time.
template <class Call>
bool ends_within(Duration bound, Call call) {
  for (int i = 0; i < 5; ++i) {
    const Deadline began = Clock::now();
    call();
    if (Clock::now() - began < bound) return true;
  }
  return false;
}

inline bool kept(const Result<Renewal>& r) { return r && std::holds_alternative<Kept>(*r); }
inline bool lost(const Result<Renewal>& r) { return r && std::holds_alternative<Lost>(*r); }

}  // namespace dlock::test
