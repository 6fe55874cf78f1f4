// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <poll.h>
#include <catch2/catch.hpp>
#include "mysql/factory.hpp"
#include "support/mariadb_server.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

// Answers have the time that a loaded machine needs.
inline Settings calm() { return quick(2s, 5s); }

inline Key key(std::string_view text) { return *Key::parse(text); }

inline std::string through(const Proxy& proxy, const Database& db) {
  return fmt::format("mysql://root@127.0.0.1:{}/{}", proxy.port(), db.name());
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
// A session over which key "k" was granted so often: the next grant is sent as text (0), prepared
// (1), or only its values are sent (2).
inline void warm_up(Backend& b, int grants) {
  (void)b.inspect(key("k"));
  for (int i = 0; i < grants; ++i) release_or_fail(b, acquire_or_fail(b, request(key("k"), 30s)));
}
inline bool readable(int fd, int ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, ms) == 1;
}

// The server of this program that the tests stop, kill and configure.
inline MariadbServer& server() {
  static MariadbServer one;
  return one;
}

// Whether, within 5 s, a statement waits for a row that another transaction has locked. The list of
// sessions cannot tell: a statement stays in it for a moment after its reply was sent.
inline bool one_waits_for_a_row(Database& db) {
  for (const Deadline until = Clock::now() + 5s; Clock::now() < until; ::usleep(1000))
    if (db.value("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE "
                 "VARIABLE_NAME='INNODB_ROW_LOCK_CURRENT_WAITS'") == "1")
      return true;
  return false;
}

// Ends every session except the tests' own.
inline int kill_sessions(Database& db) {
  const auto all = db.sql(
      "SELECT ID FROM information_schema.processlist WHERE ID<>CONNECTION_ID() AND DB=DATABASE()");
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    try {
      db.sql(fmt::format("KILL {}", all.text(0, i)));
    } catch (const std::runtime_error&) {}  // gone already
  }
  return static_cast<int>(all.rows.size());
}

}  // namespace dlock::test
