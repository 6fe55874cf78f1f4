// SPDX-License-Identifier: Apache-2.0
#include "redis/handshake.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "redis/info.hpp"
#include "redis/server_error.hpp"

namespace dlock::redis {
Duration ServerFacts::grace_left(Duration grace) const noexcept {
  if (durable) return {};
  const auto lived = uptime + std::chrono::duration_cast<Duration>(Clock::now() - seen);
  return std::max(Duration{}, grace - lived);
}

std::string grace_note(Duration grace, Duration left) {
  return fmt::format("the server restarted less than {} ago and may have forgotten a lock; grants resume in {}",
                     format_duration(grace), format_duration(left));
}

Greeting::Greeting(const Options& options, Connection& connection, std::uint64_t& requests)
    : options_(options), connection_(connection), requests_(requests) {
  const std::string& password = options.password;
  if (!password.empty() && options.user.empty()) ask("log in", {"AUTH", password});
  if (!password.empty() && !options.user.empty()) ask("log in", {"AUTH", options.user, password});
  if (options.database != 0)
    ask(fmt::format("select database {}", options.database), {"SELECT", fmt::format_int(options.database).str()});
  ask("ask who is there", {"INFO", "server"});
  ask("ask who is there", {"INFO", "replication"});
}

void Greeting::ask(std::string what, std::initializer_list<std::string_view> command) {
  connection_.add(command);
  ++requests_;
  awaited_.push_back(std::move(what));
}

Result<std::optional<ServerFacts>> Greeting::hear(Reply reply) {
  const std::string what = std::move(awaited_.front());
  awaited_.pop_front();
  if (reply.is(Reply::Type::error) && !looking_closer_) {
    std::string& text = reply.text;
    if (!options_.password.empty() && text.find(options_.password) != text.npos)
      text = text.substr(0, text.find_first_of(" '"));  // it repeats what we sent
    return fail(as_error(what, connection_.where(), text));
  }
  heard_.push_back(std::move(reply));
  if (!awaited_.empty()) return std::optional<ServerFacts>{};
  if (looking_closer_) {
    // AOF alone is not enough: with appendfsync everysec the last second is lost. Not allowed to look, or an old server: not proven.
    const Reply &persistence = heard_[heard_.size() - 2], &policy = heard_.back();
    facts_.durable = info_field(persistence.text, "aof_enabled") == "1" && policy.text_at(1) == "always";
    return std::optional{facts_};
  }
  const std::string &server = heard_[heard_.size() - 2].text, &replication = heard_.back().text;
  facts_.seen = Clock::now();
  facts_.version = info_version(server);
  facts_.run_id = info_field(server, "run_id");
  facts_.cluster = info_field(server, "redis_mode") == "cluster";
  facts_.replica = info_field(replication, "role") == "slave";
  // In whole seconds, cut at both ends: it may be almost one too many.
  facts_.uptime = std::chrono::seconds{std::clamp<std::int64_t>(info_number(server, "uptime_in_seconds") - 1, 0, 1'000'000'000)};
  if (facts_.grace_left(options_.restart_grace) == Duration{}) return std::optional{facts_};
  looking_closer_ = true;
  ask("ask how it saves", {"INFO", "persistence"});
  ask("ask how it saves", {"CONFIG", "GET", "appendfsync"});
  return std::optional<ServerFacts>{};
}

Result<ServerFacts> greet(Connection& connection, const Options& options, Wait wait, std::uint64_t& requests) {
  for (Greeting greeting{options, connection, requests};;) {
    if (auto ok = connection.flush(wait); !ok) return fail(std::move(ok.error()));
    auto reply = connection.receive(wait);
    if (!reply) return fail(std::move(reply.error()));
    if (!*reply) return fail(Errc::unavailable, wait.interrupted() ? "interrupted" : "no answer in time");
    auto facts = greeting.hear(std::move(**reply));
    if (!facts) return fail(std::move(facts.error()));
    if (*facts) return std::move(**facts);
  }
}

}  // namespace dlock::redis
