// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <catch2/catch.hpp>
#include <optional>
#include "support/polling.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline const char* const all_recipes[] = {"sequential", "curator", "kazoo", "ephemeral"};

inline Key key(const std::string& text = "k") { return Key::parse(text).value(); }
inline Request ask(Duration ttl = 10s) { return request(key(), ttl); }
// A chroot of the shared server.
inline std::string place(const char* items = "") {
  return shared_zookeeper().url() + fresh_chroot() + items;
}

inline Lease take(Waiter& w) { return granted_within(w, 30s); }
inline Granted take_all(Waiter& w) {  // with its alarm
  for (const Deadline end = Clock::now() + 30s; Clock::now() < end;)
    if (auto p = w.poll(1s); p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p);
  throw std::runtime_error("not granted");
}
// Renews until the servers answer.
inline Renewal renewed(Backend& b, const Lease& l, Duration ttl = 10s) {
  Result<Renewal> r = b.renew(l, ttl);
  for (const Deadline end = Clock::now() + 8s; !r && Clock::now() < end;) r = b.renew(l, ttl);
  REQUIRE(r);
  return *r;
}

}  // namespace dlock::test
