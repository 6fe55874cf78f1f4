// SPDX-License-Identifier: Apache-2.0
// Loops that fault tests share.
#pragma once
#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include "support/client.hpp"

namespace dlock::test {

// Where it makes no difference how long an answer takes: that of a busy machine comes in time.
inline Settings patient() {
  Settings s;
  s.op_timeout = s.connect_timeout = std::chrono::seconds{60};
  return s;
}
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
// The outcome of the first call behind which something was `seen`: a busy machine may come to it
// only in a later one.
template <class Call, class Seen>
auto call_until(Seen seen, Call call) {
  auto outcome = call();
  if (!becomes([&] { return seen() || ((outcome = call()), false); })) FAIL("not seen");
  return outcome;
}
// Polls once, and again while that is not answered.
inline bool waits(Waiter& w, Duration slice = std::chrono::milliseconds{20}) {
  return std::holds_alternative<Waiting>(answer_of(w, slice));
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

// Whether one of five attempts succeeds: a busy machine may be too slow for some of them, and a
// fault shows at each.
template <class Attempt>
bool one_of_five(Attempt attempt) {
  for (int i = 0; i < 5; ++i)
    if (attempt()) return true;
  return false;
}
// The same of attempts that answer how long they took.
template <class Attempt>
bool once_within(Duration bound, Attempt attempt) {
  return one_of_five([&] { return attempt() < bound; });
}
template <class Call>
bool ends_within(Duration bound, Call call) {
  return once_within(bound, [&] {
    const Deadline began = Clock::now();
    call();
    return Clock::now() - began;
  });
}

inline bool kept(const Result<Renewal>& r) { return r && std::holds_alternative<Kept>(*r); }
inline bool lost(const Result<Renewal>& r) { return r && std::holds_alternative<Lost>(*r); }

}  // namespace dlock::test
