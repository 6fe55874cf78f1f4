// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "redis/fair_recipe.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "support/proxy.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

// A server, and a proxy before it.
struct Proxied {
  RedisServer server;
  Proxy proxy{server.port()};
  std::string url(const std::string& items = "") const {
    return fmt::format("redis://127.0.0.1:{}?restart_grace=0{}", proxy.port(), items);
  }
  std::string direct() const { return server.url() + "?restart_grace=0"; }
};

inline Settings quick(Duration op_timeout = 500ms, Duration connect_timeout = 1s) {
  Settings s;
  s.op_timeout = op_timeout;
  s.connect_timeout = connect_timeout;
  return s;
}

inline Key key(const char* text) { return *Key::parse(text); }

inline std::size_t holders_of(Backend& b, const Key& k) {
  const auto v = b.inspect(k);
  REQUIRE(v);
  return *v ? (*v)->holders.size() : 0;
}
inline std::size_t waiters_of(Backend& b, const Key& k) {
  const auto v = b.inspect(k);
  REQUIRE(v);
  return *v ? (*v)->waiters.size() : 0;
}

// Polls until granted, through errors that a caller may try again; fails after `bound`.
inline Lease granted_within(Waiter& w, Duration bound) {
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

inline bool kept(const Result<Renewal>& r) { return r && std::holds_alternative<Kept>(*r); }
inline bool lost(const Result<Renewal>& r) { return r && std::holds_alternative<Lost>(*r); }

}  // namespace dlock::test
