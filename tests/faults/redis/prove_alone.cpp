// SPDX-License-Identifier: Apache-2.0
// One client: its rate, the cost of the scripts, the harness of dlock bench.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "prove.hpp"
#include "redis/fair/fair_backend.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::prove {
double rtt_us(RedisServer& server, int n) {
  std::vector<double> took;
  RawRedis raw{{"127.0.0.1", server.port(), {}}};
  for (int i = 0; i < n; ++i) {
    const auto t = Clock::now();
    (void)raw.ask({"PING"}, t + 5s);
    took.push_back(seconds(Clock::now() - t) * 1e6);
  }
  return quantile(took, 0.5);
}

namespace {

// What redis-benchmark reaches with one connection, requests per second.
double benchmark(RedisServer& server, const redis::Script& script,
                 const std::vector<std::string>& keys, const std::vector<std::string>& args,
                 long n) {
  std::string command =
      fmt::format("redis-benchmark -h 127.0.0.1 -p {} -c 1 -n {} -r 1000000000 --csv EVALSHA {} {}",
                  server.port(), n, script.sha, keys.size());
  for (const auto& list : {keys, args})
    for (const auto& word : list) command += " '" + word + "'";
  std::FILE* out = ::popen((command + " 2>/dev/null").c_str(), "re");
  char line[4096];
  double rate = 0;
  while (out && std::fgets(line, sizeof line, out))
    if (const char* comma = std::strstr(line, "\",\"")) rate = std::max(rate, std::atof(comma + 3));
  if (out) ::pclose(out);
  return rate;
}

// The grants that `dlock bench` counts in a second with one client, in its own process.
double bench(RedisServer& server, int seconds) {
  const std::string command = fmt::format(
      "{} bench -q -b '{}?restart_grace=0' -c 1 -d {}s --scenario uncontended --output csv "
      "2>/dev/null",
      DLOCK, server.url(), seconds);
  std::FILE* out = ::popen(command.c_str(), "re");
  char line[4096];
  double rate = 0;
  while (out && std::fgets(line, sizeof line, out))
    if (std::strncmp(line, "redis,fair,uncontended,", 23) == 0) {
      const char* at = line;  // backend,recipe,scenario,clients,seconds,grants,grants_per_s
      for (int comma = 0; comma < 6 && at; ++comma) at = std::strchr(at, ',') + 1;
      rate = std::atof(at);
    }
  if (out) ::pclose(out);
  return rate;
}

}  // namespace

void uncontended(RedisServer& server, long n) {
  auto backend = client(server);
  const Key k = *Key::parse("uncontended");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const Counts before{server};
  for (long i = 0; i < n; ++i) release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const Counts after{server};
  must(after.since(before) == static_cast<std::uint64_t>(2 * n),
       "one command to acquire, one to release");
  fmt::print("uncontended: {:.3f} commands per acquire and release (by the server's count)\n",
             static_cast<double>(after.since(before)) / static_cast<double>(n));

  // dlock uses the same keys each time; redis-benchmark uses fresh keys, so that every one of its
  // acquires is granted, too. Its releases find nothing to release, which is less work.
  const std::string r = "__rand_int__";
  const std::vector<std::string> keys = redis::FairKeys{"bench:", r}.all();
  const Request example = request(k);
  const std::string meta = example.identity.encode();
  double ours = 0, theirs = 0;
  // the best of three each, interleaved, as other programs run here, too
  for (int round = 0; round < 3; ++round) {
    const auto began = Clock::now();
    for (long i = 0; i < n; ++i) release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    ours = std::max(ours, static_cast<double>(n) / seconds(Clock::now() - began));
    const double a = benchmark(server, redis::scripts::acquire, keys,
                               {example.owner.hex(), "X", "4294967295", "10000000", "0", "3333333",
                                "2000000", meta, "", "1", "0"},
                               n);
    const double b =
        benchmark(server, redis::scripts::release, keys, {example.owner.hex(), "1", "2000000"}, n);
    if (a > 0 && b > 0) theirs = std::max(theirs, 1 / (1 / a + 1 / b));
    server.command({"FLUSHDB"});
  }
  fmt::print(
      "loop of acquire and release on one connection: {:.0f}/s; redis-benchmark -c 1, the same "
      "scripts: {:.0f}/s; ratio {:.2f}; "
      "PING {:.0f} us\n",
      ours, theirs, theirs > 0 ? ours / theirs : 0, rtt_us(server, 2000));
}

// What a script costs in the server: commands that it runs inside (asserted), and microseconds.
void inside(RedisServer& server, long n) {
  auto backend = client(server);
  const Key k = *Key::parse("inside");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const auto field = [](const std::string& line, std::string_view name) {
    const std::size_t at = line.find(fmt::format("{}=", name));
    return at == line.npos ? 0.0 : std::atof(line.c_str() + at + name.size() + 1);
  };
  const auto measure = [&](const char* what, double expected,
                           const std::function<void(Lease&)>& once) {
    Lease lease = acquire_or_fail(*backend, request(k));
    once(lease);  // connected, the script is known
    server.command({"CONFIG", "RESETSTAT"});
    for (long i = 0; i < n; ++i) once(lease);
    double commands = 0;
    for (const char* c : {"time", "hgetall", "hmget", "hset", "hdel", "pexpire", "zadd", "zrange",
                          "zcard", "zscore"})
      commands += static_cast<double>(calls(server, c)) / static_cast<double>(n);
    const std::string evalsha = info_field(server, "commandstats", "cmdstat_evalsha");
    fmt::print("in the server, {}: {:.2f} commands inside, {:.1f} us per script\n", what, commands,
               field(evalsha, "usec_per_call"));
    must(commands == expected, fmt::format("{} commands inside: {}", expected, what));
    if (backend->check(k, lease.token) == Validity::valid) release_or_fail(*backend, lease);
  };
  measure("renew", 4, [&](Lease& l) {
    if (!backend->renew(l, 10s)) throw std::runtime_error("not renewed");
  });
  measure("acquire and release", 6, [&](Lease& l) {
    release_or_fail(*backend, l);
    l = acquire_or_fail(*backend, request(k));
  });
}

// Compared with a lock without a queue: SET NX PX and a compare-and-delete, alternating, with the
// same codec on one connection each.
void against_set(RedisServer& server, long n) {
  auto backend = client(server);
  const Key k = *Key::parse("against");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  RawRedis raw{{"127.0.0.1", server.port(), {}}};
  const auto ask = [&](std::initializer_list<std::string_view> words) {
    return *raw.ask(words, Clock::now() + 5s);
  };
  const std::string sha = ask({"SCRIPT", "LOAD",
                               "if redis.call('GET', KEYS[1]) == ARGV[1] then return "
                               "redis.call('DEL', KEYS[1]) end return 0"})
                              .text;
  const std::string owner = Owner::random().hex();
  std::vector<double> ratios, plain;
  for (int turn = 0; turn < 25; ++turn) {
    const auto began = Clock::now();
    for (long i = 0; i < n; ++i) {
      if (ask({"SET", "plain", owner, "NX", "PX", "30000"}).text != "OK" ||
          ask({"EVALSHA", sha, "1", "plain", owner}).integer != 1)
        throw std::runtime_error("SET NX");
    }
    const auto half = Clock::now();
    for (long i = 0; i < n; ++i) release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    plain.push_back(static_cast<double>(n) / seconds(half - began));
    ratios.push_back(seconds(half - began) / seconds(Clock::now() - half));
  }
  fmt::print(
      "fair beside SET NX and compare-and-delete: {:.2f} of its rate (median of 25 turns; a tenth "
      "is above {:.2f}), which is "
      "{:.0f}/s\n",
      quantile(ratios, 0.5), quantile(ratios, 0.9), quantile(plain, 0.5));
}

// The overhead of the harness of `dlock bench`: the same work in its threads, with its ledger and
// histograms, and in a plain loop, alternating.
void harness(RedisServer& server, bool full) {
  auto backend = client(server);
  const Key k = *Key::parse("harness");
  std::vector<double> ratios, plain, benched;
  for (int round = 0; round < (full ? 9 : 3); ++round) {
    const auto began = Clock::now();
    long n = 0;
    for (; Clock::now() < began + (full ? 2s : 1s); ++n)
      release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    plain.push_back(static_cast<double>(n) / seconds(Clock::now() - began));
    benched.push_back(bench(server, full ? 2 : 1));
    ratios.push_back(benched.back() / plain.back());
  }
  fmt::print(
      "plain loop {:.0f}/s, dlock bench uncontended {:.0f}/s: ratio {:.3f} (medians of {} turns)\n",
      quantile(plain, 0.5), quantile(benched, 0.5), quantile(ratios, 0.5), ratios.size());
  must(quantile(benched, 0.5) > 0, "dlock bench measures");
  if (full) must(quantile(ratios, 0.5) >= 0.9, "dlock bench reaches 0.9 of the plain loop");
}

}  // namespace dlock::prove
