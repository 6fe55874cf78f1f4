// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "redis/fair/fair_backend.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

// A server, and a proxy in front of it.
struct Proxied {
  RedisServer server;
  Proxy proxy{server.port()};
  std::string url(const std::string& items = "") const {
    return fmt::format("redis://127.0.0.1:{}?restart_grace=0{}", proxy.port(), items);
  }
  std::string direct() const { return server.url() + "?restart_grace=0"; }
};

// For call_until().
inline auto lost_one(Proxied& p) {
  return [&p] { return p.proxy.lost_one(2s); };
}

inline constexpr auto an_hour = std::chrono::seconds{3600};

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

inline void set_password(RedisServer& server, const std::string& password) {
  const Reply r = server.command(
      {"ACL", "SETUSER", "app", "on", "resetpass", ">" + password, "~*", "&*", "+@all"});
  REQUIRE(r.text == "OK");
}
inline void disconnect_all(RedisServer& server) {
  server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
}

}  // namespace dlock::test
