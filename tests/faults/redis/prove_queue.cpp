// SPDX-License-Identifier: Apache-2.0
// Clients that wait for one key: commands per grant, order, memory, a head that is dead.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>
#include "prove.hpp"
#include "redis/fair/fair_backend.hpp"
#include "redis/fair/fair_record.hpp"

namespace dlock::prove {

// `n` clients that acquire and release in a loop; all wait in one queue.
Contended contended(RedisServer& server, unsigned n, long grants, bool measure_fifo) {
  const Key k = *Key::parse("contended");
  auto gate = client(server);
  const Lease held = acquire_or_fail(*gate, request(k, 60s));
  std::vector<std::unique_ptr<Backend>> backends(n);
  std::vector<std::unique_ptr<Waiter>> waiters(n);
  const Counts before{server};
  for (unsigned i = 0; i < n; ++i) {
    backends[i] = client(server);
    waiters[i] = *backends[i]->enqueue(request(k, 60s));
    // long enough to block; a slice of zero would cost one more command
    const auto p = waiters[i]->poll(2ms);
    if (!p || !std::holds_alternative<Waiting>(*p)) throw std::runtime_error("does not wait");
  }
  std::atomic<long> left{grants}, done{0};
  std::atomic<Clock::rep> released_at{0};
  std::vector<double> hand_offs;
  std::vector<unsigned> order;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      for (bool first = true;; first = false) {
        if (!first) waiters[i] = *backends[i]->enqueue(request(k, 60s));
        std::optional<Lease> lease;
        while (!lease) {
          const auto p = waiters[i]->poll(60s);
          if (p && std::holds_alternative<Granted>(*p)) lease = std::get<Granted>(*p).lease;
          else if (!p) throw std::runtime_error(p.error().message);
        }
        const Clock::rep now = Clock::now().time_since_epoch().count();
        const Clock::rep then = released_at.load();
        {
          const std::lock_guard lock{mutex};
          if (then != 0) hand_offs.push_back(static_cast<double>(now - then) / 1000);
          if (first) order.push_back(i);
        }
        ++done;
        const bool last = --left <= 0;
        released_at = Clock::now().time_since_epoch().count();
        release_or_fail(*backends[i], *lease);
        if (last || measure_fifo) return;
      }
    });
  if (!blocked_clients(server, static_cast<int>(n))) throw std::runtime_error("they do not sleep");
  std::vector<double> round_trips;  // of another client, which sleeps in between like the waiters
  std::atomic<bool> over{false};
  std::thread pinging{[&] {
    RawRedis raw{{"127.0.0.1", server.port(), {}}};
    while (!over) {
      const auto t = Clock::now();
      (void)raw.ask({"PING"}, t + 5s);
      round_trips.push_back(seconds(Clock::now() - t) * 1e6);
      ::usleep(500);
    }
  }};
  const auto began = Clock::now();
  release_or_fail(*gate, held);
  for (auto& t : threads) t.join();
  over = true;
  pinging.join();
  const double took = seconds(Clock::now() - began);
  const auto commands = static_cast<double>(Counts{server}.since(before) - 1);
  const auto granted = static_cast<double>(done.load());
  if (measure_fifo)
    must(std::is_sorted(order.begin(), order.end()),
         fmt::format("first come, first served at {} waiters", n));
  const double releases = granted;
  Contended c{(commands - releases) / granted, commands / granted, quantile(hand_offs, 0.5),
              quantile(hand_offs, 0.99), static_cast<double>(n) * took / 2.5 / granted};
  if (!measure_fifo)
    fmt::print(
        "contended, {} waiters: {:.3f} commands per grant, {:.3f} with its release; {:.0f} "
        "grants/s; hand-off p50 {:.0f} us, p99 "
        "{:.0f} us, "
        "PING meanwhile p50 {:.0f} us: {:.1f} round trips\n",
        n, c.per_grant, c.with_release, granted / took, c.p50_us, c.p99_us,
        quantile(round_trips, 0.5), c.p50_us / quantile(round_trips, 0.5));
  else
    fmt::print("in order of arrival, {} waiters: {}\n", n,
               std::is_sorted(order.begin(), order.end()) ? "yes" : "NO");
  return c;
}

void memory(RedisServer& server, long locks, long waiting) {
  server.command({"FLUSHDB"});
  auto backend = client(server);
  const auto used = [&] { return std::stoll(info_field(server, "memory", "used_memory")); };
  acquire_or_fail(*backend, request(*Key::parse("warm")));
  auto base = used();
  std::vector<Lease> leases;
  for (long i = 0; i < locks; ++i)
    leases.push_back(
        acquire_or_fail(*backend, request(*Key::parse(fmt::format("some-job-{:06}", i)), 600s)));
  fmt::print("memory: {} bytes per held lock", (used() - base) / locks);
  for (const Lease& l : leases) release_or_fail(*backend, l);
  fmt::print(", {} per released one (the fence, for 90 days)", (used() - base) / locks);
  const Key k = *Key::parse("queue");
  acquire_or_fail(*backend, request(k, 600s));
  base = used();
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (long i = 0; i < waiting; ++i) {
    waiters.push_back(*backend->enqueue(request(k, 600s)));
    if (!waiters.back()->poll(0s)) throw std::runtime_error("no place");
  }
  fmt::print(", {} per waiter (without its connection)\n", (used() - base) / waiting);
}

void dead_head(RedisServer& server) {
  const Key k = *Key::parse("dead");
  auto holder = client(server), second = client(server);
  const Lease held = acquire_or_fail(*holder, request(k, 30s));
  {
    auto dead = client(server);
    auto gone = *dead->enqueue(request(k, 30s));
    (void)gone->poll(0s);
  }
  auto waiter = *second->enqueue(request(k, 30s));
  (void)waiter->poll(0s);
  release_or_fail(*holder, held);
  const auto began = Clock::now();
  const auto p = waiter->poll(60s);
  const auto took = Clock::now() - began;
  const Duration period = redis::patience_of(30s);
  must(p && std::holds_alternative<Granted>(*p) && took <= period,
       "a dead head costs at most one liveness period");
  fmt::print("dead head of the queue: {:.0f} ms (liveness period {} ms)\n", seconds(took) * 1e3,
             period / 1ms);
}

}  // namespace dlock::prove
