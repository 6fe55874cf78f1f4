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

// How long a lease lasts when its holder dies: the least that clients must wait after a restart
// that loses it.
struct LeaseSpan {
  Duration ttl{}, lock_delay{};
  Duration whole() const noexcept { return ttl + lock_delay; }
};

// Facts that a server reported when the connection was made. As long as the connection stays open,
// it is the same process.
struct ServerFacts {
  unsigned version = 0;  // major * 100 + minor; 0: not reported
  bool replica = false;
  bool cluster = false;
  Duration uptime{};  // at least this long, at `seen`, by the server's wall clock; 0: not reported
  Deadline seen{};
  std::string run_id;  // of this process of the server

  // Options::longest_lease at the greeting. The following facts were requested only if that needs
  // them
  Duration longest_lease{};
  // the maxmemory-policy by which it may delete locks; empty: it deletes none
  std::string evicts;
  // why a restart may lose grants of this server run; empty: it is proven that it cannot
  std::string forgets;
  // `forgets` is that the append-only file is being rewritten: it may be proven when that has ended
  bool rewriting = false;

  // How long it may still have lost locks from before its start. The durability of this run does
  // not matter for that.
  Duration grace_left(Duration grace) const noexcept;
};

// The message while grants wait for that.
std::string grace_note(Duration grace, Duration left);
// Why no holder that is found there does not mean that there is none.
std::string unread_note(Duration grace, Duration left);

// Why this server must not grant (or extend to) such a lease: after a restart that loses it,
// clients would wait for `grace` alone. Errc::usage; Errc::unavailable: ask again in a moment.
// `where`: the server, for the message.
std::optional<Error> outlasts_grace(const ServerFacts&, LeaseSpan, Duration grace,
                                    std::string_view where);

// The rule behind these two, for such a lease, in one sentence for people.
std::string restart_rule(LeaseSpan, Duration grace);

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
  enum class About {
    login,
    database,
    server,
    replication,
    memory,
    persistence,
    fsync,
    fsync_on_rewrite
  };
  void ask(About, std::initializer_list<std::string_view> command);
  Result<void> understand(About, Reply&);
  void forgets(std::string_view why);

  const Options& options_;
  Connection& connection_;
  std::uint64_t& requests_;
  std::deque<About> awaited_;
  bool rewriting_ = false, first_rewrite_ = false;
  ServerFacts facts_;
};

// Logs in, selects the database and reads the server's facts. No other request may be sent before
// this has succeeded: every reply arrived and was good. Errors as of Greeting::hear; each names the
// server.
Result<ServerFacts> greet(Connection&, const Options&, Wait, std::uint64_t& requests);

}  // namespace dlock::redis
