// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/handshake.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"
#include "redis/wire/info.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redis {
Duration ServerFacts::grace_left(Duration grace) const noexcept {
  const auto lived = uptime + std::chrono::duration_cast<Duration>(Clock::now() - seen);
  return std::max(Duration{}, grace - lived);
}

Greeting::Greeting(const Options& options, Connection& connection, std::uint64_t& requests)
    : options_(options), connection_(connection), requests_(requests) {
  const std::string& password = options.password;
  if (!password.empty() && options.user.empty()) ask(About::login, {"AUTH", password});
  if (!password.empty() && !options.user.empty())
    ask(About::login, {"AUTH", options.user, password});
  if (options.database != 0)
    ask(About::database, {"SELECT", fmt::format_int(options.database).str()});
  ask(About::server, {"INFO", "server"});
  ask(About::replication, {"INFO", "replication"});
  ask(About::memory, {"INFO", "memory"});
}

void Greeting::ask(About about, std::initializer_list<std::string_view> command) {
  connection_.add(command);
  ++requests_;
  awaited_.push_back(about);
}

Result<std::optional<ServerFacts>> Greeting::hear(Reply reply) {
  const About about = awaited_.front();
  awaited_.pop_front();
  TRY_VOID(understand(about, reply));
  if (!awaited_.empty()) return std::optional<ServerFacts>{};
  return std::optional{std::move(facts_)};
}

Result<void> Greeting::understand(About about, Reply& reply) {
  const std::string what = about == About::login ? "log in"
                           : about == About::database
                               ? fmt::format("select database {}", options_.database)
                               : "identify the server";
  std::string& text = reply.text;
  if (reply.is(Reply::Type::error)) {
    Error refused = as_login_error(what, connection_.where(), text, options_.password);
    if (about == About::login && refused.code == Errc::protocol) refused.code = Errc::denied;
    return fail(std::move(refused));
  }
  const bool command = about == About::login || about == About::database;
  if (command ? text != "OK" : !reply.is(Reply::Type::string))
    return fail(Errc::protocol,
                fmt::format("{} at {}: malformed reply", what, connection_.where()));
  switch (about) {
    case About::login:
    case About::database: break;
    case About::server:
      facts_.seen = Clock::now();
      facts_.version = info_version(text);
      facts_.run_id = info_field(text, "run_id");
      facts_.cluster = info_field(text, "redis_mode") == "cluster";
      // In whole seconds, truncated at both ends: it may be almost one too many.
      facts_.uptime = std::chrono::seconds{
          std::clamp<std::int64_t>(info_number(text, "uptime_in_seconds") - 1, 0, 1'000'000'000)};
      break;
    case About::replication: facts_.replica = info_field(text, "role") == "slave"; break;
    case About::memory:
      // Also the policies for keys with an expiry: those of dlock have one.
      if (const auto policy = info_field(text, "maxmemory_policy");
          info_number(text, "maxmemory") > 0 && policy != "noeviction")
        facts_.evicts = policy;
      break;
  }
  return {};
}

Result<ServerFacts> greet(Connection& connection, const Options& options, Wait wait,
                          std::uint64_t& requests) {
  const auto named = [&](Error e) {
    if (e.message.find(connection.where()) == e.message.npos)
      e.message = fmt::format("{}: {}", connection.where(), e.message);
    return fail(std::move(e));
  };
  for (Greeting greeting{options, connection, requests};;) {
    if (auto ok = connection.flush(wait); !ok) return named(std::move(ok.error()));
    auto reply = connection.receive(wait);
    if (!reply) return named(std::move(reply.error()));
    if (!*reply)
      return named({Errc::unavailable, wait.interrupted() ? "interrupted" : "no answer in time"});
    auto facts = greeting.hear(std::move(**reply));
    if (!facts) return named(std::move(facts.error()));
    if (*facts) return std::move(**facts);
  }
}

}  // namespace dlock::redis
