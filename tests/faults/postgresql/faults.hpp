// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include "postgresql/factory.hpp"
#include "support/polling.hpp"
#include "support/postgres_server.hpp"
#include "support/proxy.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

// Answers have the time that a loaded machine needs.
inline Settings calm() { return quick(2s, 5s); }

inline Key key(std::string_view text) { return *Key::parse(text); }

inline std::string through(const Proxy& proxy, const PostgresDatabase& db) {
  return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", proxy.port(), db.name());
}

inline bool waits(Waiter& w, Duration slice = 0us) {
  const auto p = w.poll(slice);
  if (!p) FAIL(p.error().message);
  return std::holds_alternative<Waiting>(*p);
}
inline std::unique_ptr<Waiter> waiter(Backend& b, const Request& r) {
  auto w = b.enqueue(r);
  if (!w) FAIL(w.error().message);
  return std::move(*w);
}
// A session over which key "k" was granted so often: what it sends next is prepared.
inline void warm_up(Backend& b, int grants) {
  (void)b.inspect(key("k"));
  for (int i = 0; i < grants; ++i) release_or_fail(b, acquire_or_fail(b, request(key("k"), 30s)));
}

// The server of this program that the tests stop, kill and configure.
inline PostgresServer& server() {
  static PostgresServer one;
  return one;
}

// Ends every session of the database except the asking one.
inline void terminate_sessions(PostgresDatabase& db) {
  db.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() AND "
      "pid<>pg_backend_pid()");
}

}  // namespace dlock::test
