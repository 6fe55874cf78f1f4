// SPDX-License-Identifier: Apache-2.0
#include "redis/doctor.hpp"
#include <fmt/format.h>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "redis_scripts/rights_script.hpp"

namespace dlock::redis {
namespace {

using Level = Finding::Level;

class Examination {
 public:
  Examination(Client& client, Connection& line, const Needs& needs, const std::string& of)
      : found(of), client_(client), line_(line), needs_(needs) {}

  Result<void> run(const std::string& probe) {
    TRY(info, request({"INFO"}));
    if (info.is(Reply::Type::error))
      return fail(as_error("ask for its state", line_.at().text(), info.text));
    version(info.text);
    memory(info.text);
    persistence(info.text);
    grace();
    replicas(info.text);
    TRY_VOID(clock());
    return rights(probe);
  }

  Findings found;

 private:
  // Returns an error reply as a result, because a missing right is a finding.
  Result<Reply> request(std::vector<std::string> args, const Script* script = nullptr,
                        std::vector<std::string> keys = {}) {
    const Manner manner{.by_text = script != nullptr};
    // BLPOP of an old server waits for whole seconds
    auto reply =
        client_.request_any(line_, {"examine", script, std::move(keys), std::move(args)}, manner,
                            client_.options().op_timeout + std::chrono::seconds{1});
    if (!reply && reply.error().code == Errc::timed_out)
      return fail(Errc::unavailable, "examine {}: no answer in time", line_.at().text());
    return reply;
  }
  std::string config(const char* name) {  // empty if the right is missing
    const auto reply = request({"CONFIG", "GET", name});
    return reply ? std::string{reply->text_at(1)} : "";
  }

  void version(std::string_view info) {
    const unsigned v = info_version(info);
    found.add("version", std::string{info_field(info, "redis_version")},
              good_if(v >= 500, v == 0 ? Level::unknown : Level::bad),
              "Redis 5.0 or newer is needed");
  }

  void memory(std::string_view info) {
    const std::string policy{info_field(info, "maxmemory_policy")};
    const bool limited = info_number(info, "maxmemory") > 0;
    const auto level = policy.empty() ? Level::unknown : limited ? Level::bad : Level::warning;
    found.add("maxmemory-policy", limited || policy.empty() ? policy : policy + ", no maxmemory",
              good_if(policy == "noeviction", level),
              "set noeviction: other policies delete locks when memory runs out");
  }

  void persistence(std::string_view info) {
    const std::string_view what = "persistence";
    if (info_field(info, "aof_enabled") != "1")
      return found.add(what, "no AOF", Level::warning,
                       "set appendonly yes and appendfsync always (CONFIG SET, then CONFIG "
                       "REWRITE): a restart forgets when jobs were started (--once-per), and, with "
                       "restart_grace=0, locks");
    if (info_field(info, "aof_last_write_status") == "err")
      return found.add(what, "the AOF cannot be written", Level::bad,
                       "look at its disk and its log");
    const std::string fsync = config("appendfsync");
    if (fsync.empty())
      return found.add(what, "AOF, appendfsync not known", Level::unknown,
                       "grant +config|get to have it examined");
    found.add(what, "AOF, appendfsync " + fsync, good_if(fsync == "always", Level::warning),
              "set appendfsync always: a restart forgets the last second of what jobs were started "
              "(--once-per) and, with restart_grace=0, of locks");
  }

  void grace() {
    const Duration grace = client_.options().restart_grace;
    const Duration left = line_.facts().grace_left(grace);
    if (left > Duration{})
      found.add("uptime", "started less than " + format_duration(grace) + " ago", Level::warning,
                "it may have forgotten a lock; grants resume in " + format_duration(left));
    const bool none = grace == Duration{};
    found.add("restart_grace",
              none ? "0"
                   : format_duration(grace) +
                         ", to be the same for all clients; longer leases are refused",
              none ? Level::warning : Level::good,
              "leave it at 30s, or at the largest --ttl with its --lock-delay, unless no restart "
              "ever forgets a lock: neither a crash nor a new data directory");
  }

  void replicas(std::string_view info) {
    const std::int64_t have = info_number(info, "connected_slaves");
    const std::string count = std::to_string(have);
    const unsigned wanted = client_.options().replicas;
    if (!needs_.failover || (have == 0 && client_.options().topology == Options::Topology::single))
      return found.add("replicas", count, good_if(have == 0, Level::warning),
                       "a master of redlock must not be replaced by a replica: a failover forgets "
                       "grants");
    if (have < wanted)
      found.add("replicas", count, Level::bad,
                fmt::format("nothing is granted: replicas={} asks for more", wanted));
    else
      found.add("replicas", count, good_if(have > 0 && wanted > 0, Level::warning),
                have == 0
                    ? "there is none to take over"
                    : "replicas=1 in the URL makes it less likely that a failover forgets a grant");
    const std::string least = config("min-replicas-to-write");
    found.add(
        "min-replicas-to-write", least.empty() ? "?" : least,
        good_if(!least.empty() && least != "0", least.empty() ? Level::unknown : Level::warning),
        "set 1, with min-replicas-max-lag: a master that is cut off from its replicas then "
        "stops granting");
  }

  // Compares the clocks five times, and uses the fastest try, because it is the most exact one.
  Result<void> clock() {
    Micros offset = 0, round_trip = never;
    for (int i = 0; i < 5; ++i) {
      const Micros before = wall_micros();
      const auto reply = request({"TIME"});
      const Micros after = wall_micros();
      if (!reply) return fail(reply.error());
      const auto s = reply->number_at(0), us = reply->number_at(1);
      if (!s || !us) {
        found.add("clock", "?", Level::unknown, "grant +time");
        return {};
      }
      if (after - before < round_trip) {
        round_trip = after - before;
        offset = *s * 1'000'000 + *us - before - (after - before) / 2;
      }
    }
    const Micros bound = needs_.equal_clocks ? 100'000 : 1'000'000;
    const bool off = std::llabs(offset) - round_trip / 2 > bound;
    found.add("clock",
              fmt::format("{:+.3f} s against this host, round trip {:.1f} ms",
                          static_cast<double>(offset) / 1e6, static_cast<double>(round_trip) / 1e3),
              good_if(!off, needs_.equal_clocks ? Level::bad : Level::warning),
              "let NTP set all clocks: a jump ends leases early or late");
    return {};
  }

  Result<void> rights(const std::string& probe) {
    std::string missing;
    const auto note = [&](std::string_view name) {
      add_part(missing, fmt::format("+{}", name), " ");
    };
    TRY(script,
        request({needs_.in_scripts.begin(), needs_.in_scripts.end()}, &scripts::rights, {probe}));
    if (script.is(Reply::Type::error)) {
      found.add("rights", printable(script.text.substr(0, 120)), Level::bad,
                "grant what dlock-redis(7) lists");
      return {};
    }
    for (std::string_view rest = script.text_at(0); !rest.empty();) note(next_part(rest, ' '));
    const auto plain = [&](std::string_view name, std::vector<std::string> args) -> Result<void> {
      TRY(reply, request(std::move(args)));
      if (reply.is(Reply::Type::error) && classify(reply.text).code == Errc::denied) note(name);
      return {};
    };
    if (needs_.blpop)
      TRY_VOID(plain("blpop", {"BLPOP", probe, line_.facts().version >= 600 ? "0.001" : "1"}));
    if (client_.options().replicas > 0) TRY_VOID(plain("wait", {"WAIT", "0", "1"}));
    TRY_VOID(plain("evalsha", {"EVALSHA", std::string{scripts::rights.sha}, "0"}));
    if (!client_.options().prefix.empty()) TRY_VOID(plain("scan", {"SCAN", "0", "COUNT", "1"}));
    found.add("rights", missing.empty() ? "enough" : "missing: " + missing,
              good_if(missing.empty(), Level::bad), "grant what dlock-redis(7) lists");
    if (!script.text_at(1).empty())
      found.add("writing", printable(script.text_at(1).substr(0, 120)), Level::bad,
                "nothing is granted until it can be written");
    return {};
  }

  Client& client_;
  Connection& line_;
  const Needs& needs_;
};

Needs needs_of(std::string_view recipe) {
  if (recipe == "fair")
    return {.in_scripts = {"time", "hgetall", "hmget", "hset", "hdel", "pexpire", "del", "rpush",
                           "zadd", "zrem", "zremrangebyscore", "zrange", "zrangebyscore",
                           "zrevrangebyscore", "zscore", "zcard", "zcount", "zrank"},
            .blpop = true};
  Needs named{.in_scripts = {"time", "get", "set", "del", "pexpire", "pttl", "type"}};
  if (recipe == "setnx-expire") named.in_scripts.push_back("setnx");
  if (recipe == "getset") named.equal_clocks = true;
  return named;
}

}  // namespace

Result<void> examine(Client& client, const Endpoint& at, const Needs& needs,
                     const std::string& probe, const std::string& of, Findings& out) {
  TRY(line, client.line_to(at, {client.usual_deadline()}));
  Examination examination{client, *line, needs, of};
  auto ok = examination.run(probe);
  out.add(examination.found.extract());
  if (ok) client.give_back(std::move(line));
  return ok;
}

Result<std::vector<Finding>> examine_all(Client& client, const Traits& traits) {
  std::vector<Finding> way;
  const Wait wait{client.usual_deadline()};
  TRY(servers, client.locator().everyone(wait));
  client.locator().examine(wait, way);
  Findings found;
  found.add(std::move(way));
  for (const Endpoint& at : servers) {
    // Find a key in a slot of this server.
    std::string probe;
    for (unsigned n = 0; n < 100'000; ++n) {
      probe = traits.native ? fmt::format("{}{{.doctor-{}}}:rights", client.options().prefix, n)
                            : fmt::format("{}dlock:doctor-{}", client.options().prefix, n);
      TRY(home, client.locator().find(probe, wait));
      if (home == at) break;
    }
    const std::string of = servers.size() > 1 ? " of " + at.text() : "";
    TRY_VOID(examine(client, at, needs_of(traits.recipe), probe, of, found));
  }
  return found.extract();
}

}  // namespace dlock::redis
