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
inline Request ask(Duration ttl = 30s) { return request(key(), ttl); }
// A chroot of the shared server.
inline std::string place(const char* items = "") {
  return shared_zookeeper().url() + fresh_chroot() + items;
}

inline Lease take(Waiter& w) { return granted_within(w); }
inline Granted take_all(Waiter& w) {  // with its alarm
  const Progress p = answer_of(w, 60s);
  REQUIRE(std::holds_alternative<Granted>(p));
  return std::get<Granted>(p);
}

}  // namespace dlock::test
