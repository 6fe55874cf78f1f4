// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include "support/polling.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline Key key(const char* text) { return *Key::parse(text); }

inline Lease granted_within(Backend& b, const Request& r, Duration bound) {
  const auto waiter = *b.enqueue(r);
  return granted_within(*waiter, bound);
}

// A renewal that was answered, through those whose outcome is unknown.
inline Result<Renewal> renewed_within(Backend& b, const Lease& lease, Duration ttl, Duration bound) {
  Result<Renewal> r = b.renew(lease, ttl);
  for (const Deadline until = later(Clock::now(), bound); !r && Clock::now() < until; ::usleep(10'000)) r = b.renew(lease, ttl);
  return r;
}

// At how many masters this owner has the lock.
inline std::size_t votes_of(RedlockMasters& m, const std::string& name, const Owner& owner) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < m.size(); ++i) n += m.servers[i]->pid() > 0 && m.value(i, name).starts_with(owner.hex());
  return n;
}

inline bool eventually(Duration bound, const std::function<bool()>& so) {
  for (const Deadline until = later(Clock::now(), bound); Clock::now() < until; ::usleep(2000))
    if (so()) return true;
  return so();
}

}  // namespace dlock::test
