// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include "support/redlock_masters.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline Settings quick(Duration op_timeout = 500ms, Duration connect_timeout = 1s) {
  Settings s;
  s.op_timeout = op_timeout;
  s.connect_timeout = connect_timeout;
  return s;
}

inline Key key(const char* text) { return *Key::parse(text); }

// Polls until granted, through errors that a caller may try again; fails after `bound`.
inline Lease granted_within(Backend& b, const Request& r, Duration bound) {
  auto waiter = *b.enqueue(r);
  const Deadline until = later(Clock::now(), bound);
  std::string last = "never polled";
  while (Clock::now() < until) {
    const auto p = waiter->poll(std::chrono::duration_cast<Duration>(until - Clock::now()));
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
    if (p) continue;
    last = p.error().message;
    INFO(last);
    REQUIRE(retryable(p.error().code));
    ::usleep(10'000);
  }
  FAIL("not granted in time: " << last);
  throw 0;
}

inline bool kept(const Result<Renewal>& r) { return r && std::holds_alternative<Kept>(*r); }
inline bool lost(const Result<Renewal>& r) { return r && std::holds_alternative<Lost>(*r); }

// A renewal that was answered, through those whose outcome is unknown.
inline Result<Renewal> renewed_within(Backend& b, const Lease& lease, Duration ttl, Duration bound) {
  Result<Renewal> r = b.renew(lease, ttl);
  for (const Deadline until = later(Clock::now(), bound); !r && Clock::now() < until; ::usleep(10'000)) r = b.renew(lease, ttl);
  return r;
}

// At how many masters this owner has the lock.
inline std::size_t votes_of(RedlockMasters& m, const std::string& name, const Owner& owner) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < m.size(); ++i) n += m.servers[i]->pid() > 0 && m.value(i, name) == owner.hex();
  return n;
}

inline bool eventually(Duration bound, const std::function<bool()>& so) {
  for (const Deadline until = later(Clock::now(), bound); Clock::now() < until; ::usleep(2000))
    if (so()) return true;
  return so();
}

}  // namespace dlock::test
