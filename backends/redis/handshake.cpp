// SPDX-License-Identifier: Apache-2.0
#include "redis/handshake.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "redis/info.hpp"
#include "redis/server_error.hpp"

namespace dlock::redis {
namespace {

class Greeting {
 public:
  Greeting(Connection& connection, Wait wait, std::uint64_t& requests)
      : connection_(connection), wait_(wait), requests_(requests) {}

  void ask(std::initializer_list<std::string_view> command) {
    connection_.add(command);
    ++requests_;
  }
  Result<void> send() { return connection_.flush(wait_); }
  // The next answer, whatever it is.
  Result<Reply> take() {
    auto reply = connection_.receive(wait_);
    if (!reply) return fail(std::move(reply.error()));
    if (!*reply) return fail(Errc::unavailable, wait_.interrupted() ? "interrupted" : "no answer in time");
    return std::move(**reply);
  }
  // The next answer; an error reply is a failure of `what`.
  Result<Reply> expect(std::string_view what, std::string_view secret = {}) {
    auto reply = take();
    if (!reply || !reply->is(Reply::Type::error)) return reply;
    std::string& text = reply->text;
    if (!secret.empty() && text.find(secret) != text.npos)
      text = text.substr(0, text.find_first_of(" '"));  // it repeats what we sent
    return fail(as_error(what, connection_.where(), text));
  }

 private:
  Connection& connection_;
  Wait wait_;
  std::uint64_t& requests_;
};

// AOF alone is not enough: with appendfsync everysec the last second is lost. Not allowed to look, or an old server: not proven.
Result<bool> is_durable(Greeting& g) {
  g.ask({"INFO", "persistence"});
  g.ask({"CONFIG", "GET", "appendfsync"});
  if (auto ok = g.send(); !ok) return fail(std::move(ok.error()));
  const auto persistence = g.take();
  if (!persistence) return fail(persistence.error());
  const auto policy = g.take();
  if (!policy) return fail(policy.error());
  return info_field(persistence->text, "aof_enabled") == "1" && policy->text_at(1) == "always";
}

}  // namespace

Duration ServerFacts::grace_left(Duration grace) const noexcept {
  if (durable) return {};
  const auto lived = uptime + std::chrono::duration_cast<Duration>(Clock::now() - seen);
  return std::max(Duration{}, grace - lived);
}

std::string grace_note(Duration grace, Duration left) {
  return fmt::format("the server restarted less than {} ago and may have forgotten a lock; grants resume in {}",
                     format_duration(grace), format_duration(left));
}

Result<ServerFacts> greet(Connection& connection, const Options& options, Wait wait, std::uint64_t& requests) {
  Greeting g{connection, wait, requests};
  const bool login = !options.password.empty();
  const bool select = options.database != 0;
  if (login && options.user.empty()) g.ask({"AUTH", options.password});
  if (login && !options.user.empty()) g.ask({"AUTH", options.user, options.password});
  if (select) g.ask({"SELECT", fmt::format_int(options.database).str()});
  g.ask({"INFO", "server"});
  g.ask({"INFO", "replication"});
  if (auto ok = g.send(); !ok) return fail(std::move(ok.error()));

  if (login)
    if (auto ok = g.expect("log in", options.password); !ok) return fail(std::move(ok.error()));
  if (select)
    if (auto ok = g.expect(fmt::format("select database {}", options.database)); !ok) return fail(std::move(ok.error()));
  const auto server = g.expect("ask who is there");
  if (!server) return fail(server.error());
  const auto replication = g.expect("ask who is there");
  if (!replication) return fail(replication.error());

  ServerFacts facts;
  facts.seen = Clock::now();
  facts.version = info_version(server->text);
  facts.cluster = info_field(server->text, "redis_mode") == "cluster";
  facts.replica = info_field(replication->text, "role") == "slave";
  // In whole seconds, cut at both ends: it may be almost one too many.
  const std::int64_t seconds = info_number(server->text, "uptime_in_seconds");
  facts.uptime = std::chrono::seconds{std::clamp<std::int64_t>(seconds - 1, 0, 1'000'000'000)};
  if (facts.grace_left(options.restart_grace) > Duration{}) {
    const auto durable = is_durable(g);
    if (!durable) return fail(durable.error());
    facts.durable = *durable;
  }
  return facts;
}

}  // namespace dlock::redis
