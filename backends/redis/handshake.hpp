// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>
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
  std::string run_id;  // of this process of the server

  // How long it may still have forgotten locks of before its start.
  Duration grace_left(Duration grace) const noexcept;
};

// What a person is told while grants wait for that.
std::string grace_note(Duration grace, Duration left);

// The conversation that opens a connection, as it goes: which commands, and what the answers mean.
class Greeting {
 public:
  Greeting(const Options&, Connection&, std::uint64_t& requests);  // puts the first commands into the connection's buffer
  // Takes the next answer. Nothing: there are more to come, maybe to commands that this has put into the buffer. Errc::denied: password or
  // rights; Errc::usage: no such database.
  Result<std::optional<ServerFacts>> hear(Reply);

 private:
  void ask(std::string what, std::initializer_list<std::string_view> command);

  const Options& options_;
  Connection& connection_;
  std::uint64_t& requests_;
  std::deque<std::string> awaited_;
  std::vector<Reply> heard_;
  bool looking_closer_ = false;
  ServerFacts facts_;
};

// Logs in, selects the database and asks who is there: one round trip (a second one only for a server that started less than restart_grace ago).
// No other request may be sent before this has succeeded. Errc::denied: password or rights; Errc::usage: no such database.
Result<ServerFacts> greet(Connection&, const Options&, Wait, std::uint64_t& requests);

}  // namespace dlock::redis
