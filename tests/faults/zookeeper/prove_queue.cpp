// SPDX-License-Identifier: Apache-2.0
// Requests of an uncontended lock; contended: wake-ups per grant, and the order.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include "prove.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {
namespace {

void uncontended() {
  ZookeeperServer server;
  const auto backend = open_zookeeper(server.url() + "/alone");
  const auto cycle = [&] {
    const std::uint64_t before = backend->counters().requests;
    release_or_fail(*backend, acquire_or_fail(*backend, request(key("k"))));
    return backend->counters().requests - before;
  };
  cycle();
  must(cycle() == 4,
       "uncontended: create, list, the watch for a forced release, delete, and nothing else");
}

void contended(std::string_view recipe, unsigned n, Request example) {
  ZookeeperServer server{{.durable = true}};
  const std::string url =
      server.url() + "/queue" + (recipe == "sequential" ? "" : "?prefix=locks/");
  auto gate = open_zookeeper(url, {}, recipe);
  const auto ask = [&] {
    Request r = example;
    r.owner = Owner::random();
    return r;
  };
  std::vector<Lease> held;
  const unsigned limit = example.mode == Mode::permit ? example.limit : 1;
  for (unsigned i = 0; i < limit; ++i) held.push_back(acquire_or_fail(*gate, ask()));
  std::vector<std::unique_ptr<Backend>> backends(n);
  std::vector<std::unique_ptr<Waiter>> waiters(n);
  for (unsigned i = 0; i < n; ++i) {
    backends[i] = open_zookeeper(url, {}, recipe);
    waiters[i] = backends[i]->enqueue(ask()).value();
    if (!std::holds_alternative<Waiting>(waiters[i]->poll(2ms).value()))
      throw std::runtime_error("does not wait");
  }
  std::vector<unsigned> order;
  std::mutex mutex;
  unsigned inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      std::optional<Lease> lease;
      while (!lease) {
        const auto p = waiters[i]->poll(60s);
        if (!p) throw std::runtime_error(p.error().message);
        if (std::holds_alternative<Granted>(*p)) lease = std::get<Granted>(*p).lease;
      }
      {
        const std::lock_guard lock{mutex};
        order.push_back(i);
        most = std::max(most, ++inside);
      }
      if (limit > 1) ::usleep(2000);
      {
        const std::lock_guard lock{mutex};
        --inside;
      }
      release_or_fail(*backends[i], *lease);
    });
  ::usleep(200000);  // lets all of them block first, so that hand-offs wake them
  for (const Lease& l : held) release_or_fail(*gate, l);
  for (auto& t : threads) t.join();
  std::uint64_t wakes = 0;
  for (const auto& b : backends) wakes += b->counters().wakeups;
  const double per_grant = static_cast<double>(wakes) / n;
  fmt::print("{}{}, {} waiters: {:.2f} watch events per grant\n", recipe,
             limit > 1 ? fmt::format(" with {} permits", limit) : "", n, per_grant);
  must(most <= limit, "never more holders than allowed");
  if (recipe == "sequential" && limit == 1) {
    must(per_grant <= 1.01, "one watch event per grant");
    must(std::is_sorted(order.begin(), order.end()),
         fmt::format("first come, first served at {} waiters", n));
  }
  if (limit > 1)
    must(per_grant <= 4, "a few watch events per permit, whatever the number of waiters");
}

}  // namespace

void queue() {
  uncontended();
  Request r = request(key("contended"), 60s);
  for (const unsigned n : {8U, full ? 200U : 40U}) {
    contended("sequential", n, r);
    contended("ephemeral", n, r);
  }
  r.mode = Mode::permit;
  r.limit = 3;
  contended("sequential", full ? 100 : 20, r);
}

}  // namespace dlock::prove
