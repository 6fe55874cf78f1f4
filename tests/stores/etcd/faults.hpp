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
#include "support/proxy.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline Key key(const std::string& text) { return Key::parse(text).value(); }

inline Settings quick(Duration op_timeout = 700ms) {
  Settings s;
  s.op_timeout = op_timeout;
  return s;
}
inline EtcdServer::Setup in_memory(std::size_t members = 1, std::vector<std::string> flags = {}) {
  return {.members = members, .durable = false, .flags = std::move(flags)};
}
inline std::uint16_t port_of(const std::string& host) {
  return static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1)));
}
inline std::string through(const Proxy& proxy) {
  return fmt::format("etcd://127.0.0.1:{}", proxy.port());
}
inline bool kept(const Result<Renewal>& r) { return r && std::holds_alternative<Kept>(*r); }
inline bool lost(const Result<Renewal>& r) { return r && std::holds_alternative<Lost>(*r); }
inline bool granted(const Result<Progress>& p) { return p && std::holds_alternative<Granted>(*p); }

inline Lease take(Backend& b, const Request& r, Duration bound = 20s) {
  const auto w = b.enqueue(r).value();
  for (const Deadline end = Clock::now() + bound; Clock::now() < end;) {
    const auto p = w->poll(1s);
    if (!p && !retryable(p.error().code)) throw std::runtime_error(p.error().message);
    if (granted(p)) return std::get<Granted>(*p).lease;
  }
  throw std::runtime_error("not granted in time");
}

// As other programs see it.
inline etcd::KeyValues below(const EtcdServer& server, const std::string& prefix) {
  auto client = server.client();
  return client.txn("look", etcd::transaction({}, {etcd::list(prefix)}, {}), Clock::now() + 5s)
      .value()
      .range(0);
}

}  // namespace dlock::test
