// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/handshake.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "redis/wire/info.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redis {
Duration ServerFacts::grace_left(Duration grace) const noexcept {
  const auto lived = uptime + std::chrono::duration_cast<Duration>(Clock::now() - seen);
  return std::max(Duration{}, grace - lived);
}

std::string grace_note(Duration grace, Duration left) {
  return fmt::format(
      "the server restarted less than {} ago and may have forgotten a lock; grants resume in {}",
      format_duration(grace), format_duration(left));
}

std::string unread_note(Duration grace, Duration left) {
  return fmt::format(
      "nothing is granted for {}: the server restarted less than {} ago and may have forgotten a "
      "lock",
      format_duration(left), format_duration(grace));
}

std::optional<Error> outlasts_grace(const ServerFacts& facts, LeaseSpan lease, Duration grace,
                                    std::string_view where) {
  if (grace == Duration{} || lease.whole() <= grace || facts.forgets.empty()) return std::nullopt;
  std::string asked = fmt::format("--ttl {}", format_duration_up(lease.ttl));
  if (lease.lock_delay > Duration{})
    asked += fmt::format(" with --lock-delay {} is {}, which", format_duration_up(lease.lock_delay),
                         format_duration_up(lease.whole()));
  std::string text = fmt::format(
      "{} is longer than restart_grace={}, after which a restarted server grants again: {} may "
      "forget the lock before ({})",
      asked, format_duration(grace), where, facts.forgets);
  if (facts.rewriting) return Error{Errc::unavailable, std::move(text)};
  text += fmt::format("; shorten it, or put restart_grace={} into the URL of all clients",
                      format_duration_up(lease.whole()));
  return Error{Errc::usage, std::move(text)};
}

std::string restart_rule(LeaseSpan lease, Duration grace) {
  if (grace == Duration{})
    return "the next lock is granted at once (restart_grace=0): nothing may be forgotten, or two "
           "may run";
  const std::string waited = fmt::format(
      "nothing is granted before it has been up for {} (restart_grace)", format_duration(grace));
  if (lease.whole() <= grace) return waited + "; this lease has ended by then";
  return fmt::format(
      "{}; this lease, {}, is longer: only a server that proves to keep every grant gives it, "
      "others are status 64",
      waited, format_duration_up(lease.whole()));
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
  facts_.longest_lease = options.longest_lease;
  if (options.longest_lease > Duration{}) ask(About::memory, {"INFO", "memory"});
  if (options.longest_lease <= options.restart_grace || options.restart_grace == Duration{}) return;
  ask(About::persistence, {"INFO", "persistence"});
  ask(About::fsync, {"CONFIG", "GET", "appendfsync"});
  ask(About::fsync_on_rewrite, {"CONFIG", "GET", "no-appendfsync-on-rewrite"});
}

void Greeting::ask(About about, std::initializer_list<std::string_view> command) {
  connection_.add(command);
  ++requests_;
  awaited_.push_back(about);
}

void Greeting::forgets(std::string_view why) {
  if (facts_.forgets.empty()) facts_.forgets = why;  // the first reason is the most serious
}

Result<std::optional<ServerFacts>> Greeting::hear(Reply reply) {
  const About about = awaited_.front();
  awaited_.pop_front();
  if (auto ok = understand(about, reply); !ok) return fail(std::move(ok.error()));
  if (!awaited_.empty()) return std::optional<ServerFacts>{};
  return std::optional{std::move(facts_)};
}

Result<void> Greeting::understand(About about, Reply& reply) {
  const bool config = about == About::fsync || about == About::fsync_on_rewrite;
  const std::string what = about == About::login ? "log in"
                           : about == About::database
                               ? fmt::format("select database {}", options_.database)
                               : "identify the server";
  std::string& text = reply.text;
  if (reply.is(Reply::Type::error) && !config) {
    Error refused = as_login_error(what, connection_.where(), text, options_.password);
    if (about == About::login && refused.code == Errc::protocol) refused.code = Errc::denied;
    return fail(std::move(refused));
  }
  const bool command = about == About::login || about == About::database;
  if (command ? text != "OK" : !config && !reply.is(Reply::Type::string))
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
    case About::persistence:
      if (info_field(text, "aof_enabled") != "1") forgets("appendonly is no");
      else if (info_field(text, "aof_last_write_status") != "ok" ||
               info_field(text, "aof_last_bgrewrite_status") != "ok")
        forgets("its append-only file cannot be written");
      rewriting_ = info_field(text, "aof_rewrite_in_progress") != "0" ||
                   info_field(text, "aof_rewrite_scheduled") != "0";
      first_rewrite_ = rewriting_ && info_number(text, "aof_base_size") == 0;
      break;
    case About::fsync:
      if (const auto fsync = reply.text_at(1); fsync.empty())
        forgets("CONFIG GET appendfsync is not allowed");
      else if (fsync != "always") forgets(fmt::format("appendfsync is {}", printable(fsync)));
      break;
    case About::fsync_on_rewrite:
      if (reply.text_at(1) != "no") forgets("no-appendfsync-on-rewrite is not known to be no");
      // After CONFIG SET appendonly yes a restart does not use that file before its first rewrite
      // has ended. Facts about later rewrites do not exclude that it is one after no and yes: so
      // nothing is granted then, and it is asked again.
      facts_.rewriting = rewriting_ && !first_rewrite_ && facts_.forgets.empty();
      if (rewriting_) forgets("its append-only file is being rewritten");
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
