// SPDX-License-Identifier: Apache-2.0
// Promises of recipe `fair` on a real server that are counts, by the server's own INFO
// commandstats, and the order of waiters.
// redis_prove [--full] [PART...]
//
// Parts: free (beside SET NX PX and a compare-and-delete over the same codec), inside (commands of
// a script), queue.
#include <stdexcept>
#include "redis/fair/fair_backend.hpp"
#include "stores/contest.hpp"
#include "support/redis_client.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

RedisServer& server() {
  static RedisServer one{{.config = {"maxclients 4000"}}};
  return one;
}
std::uint64_t calls(std::string_view command) {
  const std::string text = info_field(server(), "commandstats", fmt::format("cmdstat_{}", command));
  return text.starts_with("calls=") ? std::stoull(text.substr(6)) : 0;
}
const Place fair{.name = "fair",
                 .open = [] { return open_redis(server().url() + "?restart_grace=0"); },
                 .requests = [] { return calls("evalsha") + calls("eval") + calls("blpop"); }};

void free_key() {
  RawRedis raw{{"127.0.0.1", server().port(), {}}};
  const auto ask = [&](std::initializer_list<std::string_view> words) {
    return *raw.ask(words, Clock::now() + 5s);
  };
  const std::string sha = ask({"SCRIPT", "LOAD",
                               "if redis.call('GET', KEYS[1]) == ARGV[1] then return "
                               "redis.call('DEL', KEYS[1]) end return 0"})
                              .text;
  const std::string owner = Owner::random().hex();
  uncontended(fair, {.requests = 2, .n = full ? 2000 : 200, .turns = 25, .raw = [&] {
                       if (ask({"SET", "plain", owner, "NX", "PX", "30000"}).text != "OK" ||
                           ask({"EVALSHA", sha, "1", "plain", owner}).integer != 1)
                         throw std::runtime_error("SET NX");
                     }});
}

// Commands that a script runs inside.
void inside() {
  const auto backend = fair.open();
  const long n = full ? 20'000 : 1'000;
  const auto measure = [&](const char* what, double expected,
                           const std::function<void(Lease&)>& once) {
    Lease lease = acquire_or_fail(*backend, request(key("inside")));
    once(lease);  // connected, the script is known
    server().command({"CONFIG", "RESETSTAT"});
    for (long i = 0; i < n; ++i) once(lease);
    double commands = 0;
    for (const char* c : {"time", "hgetall", "hmget", "hset", "hdel", "pexpire", "zadd", "zrange",
                          "zcard", "zscore"})
      commands += static_cast<double>(calls(c)) / static_cast<double>(n);
    fmt::print("in the server, {}: {:.2f} commands\n", what, commands);
    must(commands == expected, fmt::format("{} commands inside: {}", expected, what));
    release_or_fail(*backend, lease);
  };
  measure("renew", 4, [&](Lease& l) {
    if (!backend->renew(l, 10s)) throw std::runtime_error("not renewed");
  });
  measure("acquire and release", 6, [&](Lease& l) {
    release_or_fail(*backend, l);
    l = acquire_or_fail(*backend, request(key("inside")));
  });
}

// Three commands take a place and the lock, one gives it back; and, each 2.5 s, one shows that a
// waiter is alive.
void queue() {
  const auto contend = [](unsigned n, long grants) {
    return contended(fair, {.waiters = n,
                            .grants = grants,
                            .most_requests = 4.05,
                            .looks = 2500ms,
                            .with_first = true,
                            .ttl = 60s});
  };
  const Cost few = contend(8, full ? 20'000 : 1'000), many = contend(500, full ? 20'000 : 2'000);
  const auto no_more = [](const Cost& these, const Cost& than) {  // but for their releases
    return these.requests - 1 - these.looks < (than.requests - 1) * 1.1;
  };
  must(no_more(many, few) && no_more(few, many), "as many at 500 waiters as at 8, within 10 %");
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* program = missing_redis()) return without(program);
  return run_parts(argc, argv, {{"free", free_key}, {"inside", inside}, {"queue", queue}});
}
