// SPDX-License-Identifier: Apache-2.0
// Contended: requests, wake-ups and hand-offs per grant.
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include "prove.hpp"
#include "zookeeper/session/session_backend.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {
namespace {

void contended(std::string_view recipe, unsigned n, Request example) {
  ZookeeperServer server{{.durable = true}};
  const std::string url =
      server.url() + "/queue" + (recipe == "sequential" ? "" : "?prefix=locks/");
  auto gate = open_zookeeper(url, {}, recipe);
  const Key k = key("contended");
  const auto ask = [&] {
    Request r = example;
    r.owner = Owner::random();
    return r;
  };
  std::vector<Lease> held;
  const unsigned limit = example.mode == Mode::permit ? example.limit : 1;
  for (unsigned i = 0; i < limit; ++i) held.push_back(wait_for_lease(*gate, ask()));
  std::vector<std::unique_ptr<Backend>> backends(n);
  std::vector<std::unique_ptr<Waiter>> waiters(n);
  for (unsigned i = 0; i < n; ++i) {
    backends[i] = open_zookeeper(url, {}, recipe);
    waiters[i] = backends[i]->enqueue(ask()).value();
    if (!std::holds_alternative<Waiting>(waiters[i]->poll(2ms).value()))
      throw std::runtime_error("does not wait");
  }
  std::vector<std::uint64_t> base;
  for (auto& b : backends) base.push_back(b->counters().requests);
  std::vector<unsigned> order;
  std::vector<double> hand_offs;
  std::mutex mutex;
  std::atomic<std::int64_t> released_at{0};
  std::atomic<unsigned> inside{0}, most{0};
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
        if (released_at != 0) hand_offs.push_back(static_cast<double>(nanos() - released_at) / 1e6);
        most = std::max(most.load(), ++inside);
      }
      if (limit > 1) ::usleep(2000);
      --inside;
      released_at = nanos();
      release_or_fail(*backends[i], *lease);
    });
  ::usleep(200000);  // lets all of them block first, so that the hand-offs measured wake them
  const std::int64_t began = nanos();
  released_at = began;
  for (const Lease& l : held) release_or_fail(*gate, l);
  for (auto& t : threads) t.join();
  const double seconds = static_cast<double>(nanos() - began) / 1e9;
  std::uint64_t wakes = 0, requests = 0;
  for (unsigned i = 0; i < n; ++i) {
    wakes += backends[i]->counters().wakeups;
    requests += backends[i]->counters().requests - base[i];
  }
  const double per_grant = static_cast<double>(wakes) / n;
  const bool sorted = std::is_sorted(order.begin(), order.end());
  fmt::print(
      "{}{}, {} waiters: {:.2f} watch events per grant, {:.2f} requests per grant (after joining: "
      "create, list, watch), {:.0f} "
      "grants/s, hand-off p50 "
      "{:.2f} ms p99 {:.2f} ms, in order of arrival: {}\n",
      recipe, limit > 1 ? fmt::format(" with {} permits", limit) : "", n, per_grant,
      static_cast<double>(requests) / n, n / seconds, quantile(hand_offs, 0.5),
      quantile(hand_offs, 0.99), sorted ? "yes" : "no");
  must(most <= limit, "never more holders than allowed");
  if (recipe == "sequential" && limit == 1) {
    must(per_grant <= 1.01, "one watch event per grant");
    must(sorted, fmt::format("first come, first served at {} waiters", n));
  }
  if (limit > 1)
    must(per_grant <= 4, "a few watch events per permit, whatever the number of waiters");
}

}  // namespace

void queue() {
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
