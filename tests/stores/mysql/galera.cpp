// SPDX-License-Identifier: Apache-2.0
// mysql_galera [grants]: recipe lease on a cluster of three nodes while nodes are killed, stopped
// and cut off. Twelve clients, four per node, take turns on one key. 0 grants: only what is refused
// on a cluster, and when a lease ends there.
#include "support/galera.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include "stores/contention.hpp"
#include "support/prove.hpp"
#include "support/proxy.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

int main(int argc, char** argv) {
  if (!Galera::installed()) return without("galera-4");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const long wanted = argc > 1 ? std::atol(argv[1]) : 5000;
  const auto began = Clock::now();
  Galera cluster;
  fmt::print("three nodes after {:.1f} s\n", seconds(Clock::now() - began));
  cluster[0].sql("CREATE DATABASE d");
  cluster.wait_synced(2);

  for (const char* recipe : {"get-lock", "for-update"}) {  // which lock on one node only
    const auto held = open_mysql(cluster[0].url("d"), {}, recipe);
    const auto refused = (*held->enqueue(request(*Key::parse("k"))))->poll(0us);
    must(!refused && refused.error().code == Errc::usage &&
             refused.error().message.find("Galera") != std::string::npos,
         fmt::format("{} is refused", recipe));
    fmt::print("{}: {}\n", recipe, refused ? "granted" : refused.error().message);
  }
  for (const char* recipe : {"insert", "version"}) {  // whose leases end by each node's own clock
    const Key k = *Key::parse("skew");
    const auto a = open_mysql(cluster[0].url("d") + "?clock_skew=1500ms", {}, recipe);
    release_or_fail(*a, acquire_or_fail(*a, request(k)));
    for (const Deadline until = Clock::now() + 10s; Clock::now() < until; ::usleep(5000)) try {
        // the tables have arrived, too
        cluster[1].sql(fmt::format("SELECT 1 FROM d.dlock_{}", recipe));
        break;
      } catch (const std::runtime_error&) {}
    const auto b = open_mysql(cluster[1].url("d") + "?clock_skew=1500ms", {}, recipe);
    const Lease first = acquire_or_fail(*a, request(k, 500ms));
    auto w = *b->enqueue(request(k, 4s));
    for (;;) {
      const auto p = w->poll(1s);
      if (p && std::holds_alternative<Granted>(*p)) {
        const auto late = Clock::now() - first.deadline;
        fmt::print(
            "{}: granted on another node {:.2f} s after the deadline of the first, "
            "?clock_skew=1500ms\n",
            recipe, seconds(late));
        must(late >= 1400ms, "a foreign lease ends ?clock_skew= late");
        release_or_fail(*b, std::get<Granted>(*p).lease);
        break;
      }
    }
  }
  if (wanted == 0) return failed;
  const auto found = open_mysql(cluster.url("d"))->doctor();
  for (const auto& f : *found)
    if (f.what.starts_with("wsrep") || f.what.starts_with("clock") || f.what == "cluster")
      fmt::print("doctor: {} {} {}\n", f.what, f.seen, f.advice);
  release_or_fail(*open_mysql(cluster[0].url("d")),
                  acquire_or_fail(*open_mysql(cluster[0].url("d")), request(*Key::parse("warm"))));

  Proxy cut{cluster[2].port()};  // the link of one node's clients, cut now and then
  Settings settings;
  settings.op_timeout = 700ms;
  settings.connect_timeout = 1s;
  const unsigned seed = std::random_device{}();
  Contention clients{{.open =
                          [&](unsigned i) {
                            return open_mysql(i % 3 == 2
                                                  ? fmt::format("mysql://root@127.0.0.1:{},"
                                                                "127.0.0.1:{}/d",
                                                                cut.port(), cluster[0].port())
                                                  : cluster.url("d", i % 3),
                                              settings);
                          },
                      .clients = 12,
                      .ttl = 4s,
                      .seed = seed}};
  const auto reach = [&](long n) {
    while (clients.grants() < n) ::usleep(20'000);
  };
  const auto started = Clock::now();
  reach(wanted / 6);
  fmt::print("after {} grants: kill -9 of node 1\n", clients.grants());
  cluster[1].kill();
  reach(wanted * 2 / 6);
  cluster.come_back(1);
  fmt::print("after {} grants: node is back; node 2 is stopped for 8 s\n", clients.grants());
  cluster[2].freeze();
  ::sleep(8);
  cluster[2].thaw();
  cluster.wait_synced(2);
  fmt::print("after {} grants: node 2 continues; cuts\n", clients.grants());
  for (int i = 0; i < 5; ++i) {
    cut.cut();
    ::usleep(300'000);
  }
  reach(wanted * 4 / 6);
  fmt::print("after {} grants: kill -9 of node 0\n", clients.grants());
  cluster[0].kill();
  reach(wanted * 5 / 6);
  cluster.come_back(0);
  reach(wanted);
  const std::string violations = clients.violations();
  fmt::print(
      "Galera, seed {}, 12 clients over 3 nodes, 2 x kill -9, 8 s stop, 5 cuts: {} grants in "
      "{:.0f} "
      "s; {} errors that were retried, {} leases lost\n",
      seed, clients.grants(), seconds(Clock::now() - started), clients.errors, clients.lost);
  must(violations.empty(), violations);
  return failed ? 1 : 0;
}
