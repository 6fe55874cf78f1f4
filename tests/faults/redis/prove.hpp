// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of redis_prove.
#pragma once
#include <fmt/format.h>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include "support/prove.hpp"
#include "support/redis_client.hpp"

namespace dlock::prove {

using namespace dlock::test;
using namespace std::chrono_literals;

inline std::uint64_t calls(RedisServer& server, std::string_view command) {
  const std::string text = info_field(server, "commandstats", fmt::format("cmdstat_{}", command));
  return text.starts_with("calls=") ? std::stoull(text.substr(6)) : 0;
}

struct Counts {
  std::uint64_t evalsha, eval, blpop;
  explicit Counts(RedisServer& s)
      : evalsha(calls(s, "evalsha")), eval(calls(s, "eval")), blpop(calls(s, "blpop")) {}
  std::uint64_t since(const Counts& before) const {
    return evalsha + eval + blpop - before.evalsha - before.eval - before.blpop;
  }
};

inline std::unique_ptr<Backend> client(RedisServer& server) {
  return open_redis(server.url() + "?restart_grace=0");
}

struct Contended {
  double per_grant, with_release, p50_us, p99_us;
  double alive;  // most commands per grant by which waiters show that they live: each in 2.5 s
};

double rtt_us(RedisServer&, int n);  // of a PING

// The parts.
void uncontended(RedisServer&, long n);
void inside(RedisServer&, long n);
void against_set(RedisServer&, long n);
void harness(RedisServer&, bool full);
Contended contended(RedisServer&, unsigned n, long grants, bool measure_fifo);
void memory(RedisServer&, long locks, long waiting);
void dead_head(RedisServer&);
void processes(RedisServer&, int n);

}  // namespace dlock::prove
