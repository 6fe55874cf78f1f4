// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include "support/etcd_server.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline Key key(const std::string& text) { return Key::parse(text).value(); }

inline EtcdServer::Setup in_memory(std::size_t members = 1, std::vector<std::string> flags = {}) {
  return {.members = members, .durable = false, .flags = std::move(flags)};
}
inline std::uint16_t port_of(const std::string& host) {
  return static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1)));
}
inline std::string through(const Proxy& proxy) {
  return fmt::format("etcd://127.0.0.1:{}", proxy.port());
}
inline bool granted(const Result<Progress>& p) { return p && std::holds_alternative<Granted>(*p); }

inline Lease take(Backend& b, const Request& r) { return granted_within(*b.enqueue(r).value()); }

// As other programs see it.
inline etcd::KeyValues below(const EtcdServer& server, const std::string& prefix) {
  auto client = server.client();
  return client.txn("look", etcd::transaction({}, {etcd::list(prefix)}, {}), Clock::now() + 60s)
      .value()
      .range(0);
}

}  // namespace dlock::test
