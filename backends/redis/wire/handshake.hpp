// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/wire/connection.hpp"
#include "redis/wire/options.hpp"

namespace dlock::redis {

// Facts that a server reported when the connection was made. As long as the connection stays open,
// it is the same process.
struct ServerFacts {
  unsigned version = 0;  // major * 100 + minor; 0: not reported
  bool replica = false;
  bool cluster = false;
  Duration uptime{};  // at least this long, at `seen`, by the server's wall clock; 0: not reported
  Deadline seen{};
  std::string run_id;  // of this process of the server

  // the maxmemory-policy by which it may delete locks; empty: it deletes none
  std::string evicts;

  // How long it may still have lost locks from before its start.
  Duration grace_left(Duration grace) const noexcept;
};

// The dialogue that opens a connection: its commands, and the meaning of the replies. All of it is
// one round trip.
class Greeting {
 public:
  // puts the commands into the connection's buffer
  Greeting(const Options&, Connection&, std::uint64_t& requests);
  // Takes the next reply. Nothing: there are more to come. Errc::denied: password or rights;
  // Errc::usage: no such database; Errc::protocol: not a reply to the command.
  Result<std::optional<ServerFacts>> hear(Reply);

 private:
  enum class About { login, database, server, replication, memory };
  void ask(About, std::initializer_list<std::string_view> command);
  Result<void> understand(About, Reply&);

  const Options& options_;
  Connection& connection_;
  std::uint64_t& requests_;
  std::deque<About> awaited_;
  ServerFacts facts_;
};

// Logs in, selects the database and reads the server's facts. No other request may be sent before
// this has succeeded: every reply arrived and was good. Errors as of Greeting::hear; each names the
// server.
Result<ServerFacts> greet(Connection&, const Options&, Wait, std::uint64_t& requests);

}  // namespace dlock::redis
