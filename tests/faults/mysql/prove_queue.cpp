// SPDX-License-Identifier: Apache-2.0
// Clients that wait for one key: statements and wake-ups per grant, order.
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>
#include "mysql/lease/lease_backend.hpp"
#include "prove.hpp"

namespace dlock::prove {

// `n` clients that acquire and release in a loop; all wait in one queue.
void contended(MariadbServer& server, unsigned n, long grants, double most_statements,
               double most_wakes) {
  Database db{server};
  const Key k = key("contended");
  auto gate = open_mysql(db.url());
  const Lease held = acquire_or_fail(*gate, request(k, 300s));
  std::vector<std::unique_ptr<Backend>> backends(n);
  std::vector<std::unique_ptr<Waiter>> waiters(n);
  for (unsigned i = 0; i < n; ++i) {
    backends[i] = open_mysql(db.url());
    waiters[i] = *backends[i]->enqueue(request(k, 300s));
    const auto p = waiters[i]->poll(1ms);
    if (!p || !std::holds_alternative<Waiting>(*p)) throw std::runtime_error("does not wait");
  }
  const auto counts = [&] {
    std::array<std::uint64_t, 3> c{};
    for (const auto& b : backends) {
      c[0] += b->counters().requests;
      c[1] += b->counters().wakeups;
      c[2] += static_cast<mysql::LeaseBackend&>(*b).conflicts();
    }
    return c;
  };
  const auto before = counts();
  std::atomic<long> left{grants};
  std::atomic<Clock::rep> released_at{0};
  std::mutex mutex;
  std::vector<double> hand_offs;
  std::vector<std::pair<FencingToken, std::uint64_t>> order;  // token, ticket
  long done = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      while (left.fetch_sub(1) > 0) {
        if (!waiters[i]) waiters[i] = *backends[i]->enqueue(request(k, 300s));
        for (;;) {
          const auto p = waiters[i]->poll(60s);
          if (!p) throw std::runtime_error(p.error().message);
          if (const auto* g = std::get_if<Granted>(&*p)) {
            const auto now = Clock::now().time_since_epoch().count();
            const auto from = released_at.exchange(0);
            {
              const std::lock_guard lock{mutex};
              if (from) hand_offs.push_back(static_cast<double>(now - from) / 1e6);
              ++done;
            }
            waiters[i].reset();
            released_at = Clock::now().time_since_epoch().count();
            release_or_fail(*backends[i], g->lease);
            break;
          }
        }
      }
      if (waiters[i]) (void)waiters[i]->cancel();
      waiters[i].reset();
    });
  const auto began = Clock::now();
  release_or_fail(*gate, held);
  for (auto& t : threads) t.join();
  const double took = seconds(Clock::now() - began);
  const auto after = counts();
  const double per = static_cast<double>(done);
  const double statements = static_cast<double>(after[0] - before[0]) / per,
               wakes = static_cast<double>(after[1] - before[1]) / per,
               conflicts = static_cast<double>(after[2] - before[2]) / per;
  fmt::print(
      "{} waiters, {} grants: {:.2f} statements, {:.3f} conflicts, {:.2f} wake-ups per grant; "
      "{:.0f} grants/s; hand-off (release "
      "sent to next grant) p50 {:.2f} ms, p99 {:.2f} ms\n",
      n, done, statements, conflicts, wakes, per / took, quantile(hand_offs, 0.5),
      quantile(hand_offs, 0.99));
  must(statements <= most_statements, "statements per grant");
  must(wakes <= most_wakes, "wake-ups per grant");
  must(conflicts <= 0.05, "conflicts per grant");
}

// Waiters that queued one after the other are granted in that order, whichever polls first.
void fifo(MariadbServer& server, unsigned n, int rounds) {
  Database db{server};
  const Key k = key("fifo");
  long violations = 0, grants = 0;
  for (int round = 0; round < rounds; ++round) {
    auto gate = open_mysql(db.url());
    const Lease held = acquire_or_fail(*gate, request(k, 300s));
    std::vector<std::unique_ptr<Backend>> backends(n);
    std::vector<std::unique_ptr<Waiter>> waiters(n);
    for (unsigned i = 0; i < n; ++i) {
      backends[i] = open_mysql(db.url());
      waiters[i] = *backends[i]->enqueue(request(k, 300s));
      (void)waiters[i]->poll(0us);
    }
    std::vector<unsigned> order;
    std::vector<std::thread> threads;
    for (unsigned i = n; i-- > 0;)
      threads.emplace_back([&, i] {
        for (;;) {
          const auto p = waiters[i]->poll(60s);
          if (!p) throw std::runtime_error(p.error().message);
          if (const auto* g = std::get_if<Granted>(&*p)) {
            order.push_back(i);  // protected by the lock alone
            release_or_fail(*backends[i], g->lease);
            return;
          }
        }
      });
    release_or_fail(*gate, held);
    for (auto& t : threads) t.join();
    for (unsigned i = 0; i < order.size(); ++i) violations += order[i] != i;
    grants += static_cast<long>(order.size());
  }
  fmt::print("FIFO: {} violations in {} grants ({} waiters)\n", violations, grants, n);
  must(violations == 0, "first come, first served");
}

// This many wait at once, each with a connection; each is granted once, in order of arrival.
void crowd(unsigned n) {
  MariadbServer server{{.config = {fmt::format("max_connections={}", n + 50)}}};
  Database db{server};
  const Key k = key("crowd");
  const auto gate = open_mysql(db.url());
  const Lease held = acquire_or_fail(*gate, request(k, 600s));
  std::vector<std::unique_ptr<Backend>> backends(n);
  std::vector<std::unique_ptr<Waiter>> waiters(n);
  const auto joined = Clock::now();
  for (unsigned i = 0; i < n; ++i) {
    backends[i] = open_mysql(db.url());
    waiters[i] = *backends[i]->enqueue(request(k, 600s));
    const auto p = waiters[i]->poll(1us);
    if (!p) throw std::runtime_error(p.error().message);
  }
  const auto requests = [&] {
    std::uint64_t all = 0, wakes = 0;
    for (const auto& b : backends) all += b->counters().requests, wakes += b->counters().wakeups;
    return std::pair{all, wakes};
  };
  const auto before = requests();
  std::vector<unsigned> order;
  std::atomic<long> errors{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      for (;;) {
        const auto p = waiters[i]->poll(60s);
        if (!p) {
          ++errors;
        } else if (const auto* g = std::get_if<Granted>(&*p)) {
          order.push_back(i);  // protected by the lock alone
          release_or_fail(*backends[i], g->lease);
          return;
        }
      }
    });
  const auto began = Clock::now();
  release_or_fail(*gate, held);
  for (auto& t : threads) t.join();
  const auto after = requests();
  long violations = 0;
  for (unsigned i = 0; i < order.size(); ++i) violations += order[i] != i;
  fmt::print(
      "{} waiters at once, who joined in {:.1f} s: {} granted in {:.1f} s, {} out of order, {} "
      "errors that were retried; "
      "{:.2f} "
      "statements, {:.2f} wake-ups per grant\n",
      n, seconds(began - joined), order.size(), seconds(Clock::now() - began), violations,
      errors.load(), static_cast<double>(after.first - before.first) / n,
      static_cast<double>(after.second - before.second) / n);
  must(order.size() == n, "no waiter is lost");
  must(violations == 0, "first come, first served");
}

}  // namespace dlock::prove
