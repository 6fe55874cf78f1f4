// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/connection.hpp"
#include "redis/options.hpp"

namespace dlock::redis {

// What a server said of itself when the connection was made. As long as the connection stands, it is the same process.
struct ServerFacts {
  unsigned version = 0;  // major * 100 + minor; 0: it did not say
  bool replica = false;
  bool cluster = false;
  bool durable = false;  // proven: AOF with appendfsync always, so a restart forgets nothing. Looked at only if it matters
  Duration uptime{};     // at least so long, at `seen`; 0: it did not say
  Deadline seen{};

  // How long it may still have forgotten locks of before its start.
  Duration grace_left(Duration grace) const noexcept;
};

// What a person is told while grants wait for that.
std::string grace_note(Duration grace, Duration left);

// Logs in, selects the database and asks who is there: one round trip (a second one only for a server that started less than restart_grace ago).
// No other request may be sent before this has succeeded. Errc::denied: password or rights; Errc::usage: no such database.
Result<ServerFacts> greet(Connection&, const Options&, Wait, std::uint64_t& requests);

}  // namespace dlock::redis
