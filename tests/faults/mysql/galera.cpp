// SPDX-License-Identifier: Apache-2.0
// mysql_galera [grants]: recipe lease on a cluster of three nodes while nodes are killed, stopped
// and cut off. Twelve clients, four per node, take turns on one key; each grant's token and each
// hold are checked. Counts are asserted, times are printed. 0 grants: only what is refused on a
// cluster, and when a lease ends there.
#include "support/galera.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>
#include "support/prove.hpp"
#include "support/proxy.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

struct Seen {
  std::mutex mutex;
  std::set<FencingToken> tokens;
  FencingToken last = 0;
  Owner inside{};
  Deadline inside_until{};
  bool occupied = false;
  long grants = 0, duplicates = 0, falling = 0, overlaps = 0, errors = 0, lost = 0, expired = 0;
};

// Holds count from the grant to the release, or to an earlier deadline: after it dlock would have
// killed the job.
void contend(const std::string& url, unsigned seed, Seen& seen, const std::atomic<bool>& stop,
             long wanted) {
  std::mt19937 random{seed};
  Settings s;
  s.op_timeout = 700ms;
  s.connect_timeout = 1s;
  const Key k = *Key::parse("contended");
  auto backend = open_mysql(url, s);
  while (!stop) {
    Request r = request(k, 4s);
    auto w = *backend->enqueue(r);
    std::optional<Lease> lease;
    while (!lease && !stop) {
      auto p = w->poll(500ms);
      if (!p) {
        const std::lock_guard lock{seen.mutex};
        ++seen.errors;
        ::usleep(20'000);
      } else if (auto* g = std::get_if<Granted>(&*p)) {
        lease = g->lease;
      }
    }
    if (!lease) {
      (void)w->cancel();
      break;
    }
    {
      const std::lock_guard lock{seen.mutex};
      const Deadline now = Clock::now();
      if (now >= lease->deadline) {
        ++seen.expired;  // too late: no job would be started
      } else {
        ++seen.grants;
        if (!seen.tokens.insert(lease->token).second) ++seen.duplicates;
        if (lease->token <= seen.last) ++seen.falling;
        seen.last = std::max(seen.last, lease->token);
        if (seen.occupied && now < seen.inside_until) {
          ++seen.overlaps;
          fmt::print("overlap: token {} while {} ms of another hold are left\n", lease->token,
                     (seen.inside_until - now) / 1ms);
        }
        seen.occupied = true;
        seen.inside = lease->owner;
        seen.inside_until = lease->deadline;
      }
    }
    ::usleep(static_cast<useconds_t>(random() % 1500));
    {
      const std::lock_guard lock{seen.mutex};
      // from here on the release may have happened
      if (seen.occupied && seen.inside == lease->owner) seen.occupied = false;
      if (seen.grants >= wanted) const_cast<std::atomic<bool>&>(stop) = true;
    }
    for (int i = 0; i < 3; ++i) {
      const auto done = backend->release(*lease);
      if (done) {
        if (*done == Released::was_not_held) {
          const std::lock_guard lock{seen.mutex};
          ++seen.lost;
        }
        break;
      }
      const std::lock_guard lock{seen.mutex};
      ++seen.errors;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!Galera::installed()) return without("galera-4");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const long wanted = argc > 1 ? std::atol(argv[1]) : 5000;
  const auto began = Clock::now();
  Galera cluster;
  fmt::print("three nodes after {:.1f} s\n",
             std::chrono::duration<double>(Clock::now() - began).count());
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
            recipe, std::chrono::duration<double>(late).count());
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
  Seen seen;
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < 12; ++i) {
    std::string url = cluster.url("d", i % 3);
    if (i % 3 == 2)
      url = fmt::format("mysql://root@127.0.0.1:{},127.0.0.1:{}/d", cut.port(), cluster[0].port());
    clients.emplace_back([&, url, i] { contend(url, i + 1, seen, stop, wanted); });
  }
  const auto grants = [&] {
    const std::lock_guard lock{seen.mutex};
    return seen.grants;
  };
  const auto reach = [&](long n) {
    while (!stop && grants() < n) ::usleep(20'000);
  };
  const auto started = Clock::now();
  reach(wanted / 6);
  fmt::print("after {} grants: kill -9 of node 1\n", grants());
  cluster[1].kill();
  reach(wanted * 2 / 6);
  cluster.come_back(1);
  fmt::print("after {} grants: node is back; node 2 is stopped for 8 s\n", grants());
  cluster[2].freeze();
  ::sleep(8);
  cluster[2].thaw();
  cluster.wait_synced(2);
  fmt::print("after {} grants: node 2 continues; cuts\n", grants());
  for (int i = 0; i < 5 && !stop; ++i) {
    cut.cut();
    ::usleep(300'000);
  }
  reach(wanted * 4 / 6);
  fmt::print("after {} grants: kill -9 of node 0\n", grants());
  cluster[0].kill();
  reach(wanted * 5 / 6);
  cluster.come_back(0);
  reach(wanted);
  stop = true;
  for (auto& c : clients) c.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  fmt::print(
      "Galera, 12 clients over 3 nodes, 2 x kill -9, 8 s stop, 5 cuts: {} grants in {:.0f} s; {} "
      "duplicate tokens, {} falling "
      "tokens, "
      "{} overlaps; {} errors that were retried, {} grants that came too late, {} holds that had "
      "ended\n",
      seen.grants, seconds, seen.duplicates, seen.falling, seen.overlaps, seen.errors, seen.expired,
      seen.lost);
  must(seen.grants >= wanted, "enough grants");
  must(seen.duplicates == 0 && seen.falling == 0, "tokens rise");
  must(seen.overlaps == 0, "one holder at a time");
  return failed ? 1 : 0;
}
