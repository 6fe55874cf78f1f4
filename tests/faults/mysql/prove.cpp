// SPDX-License-Identifier: Apache-2.0
// Promises of recipes lease and get-lock on a real server that are counts of statements and
// wake-ups, and the order of waiters.
// mysql_prove [--full]
#include "support/prove.hpp"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>
#include "mysql/lease/lease_table.hpp"
#include "support/mariadb_server.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

Key key(std::string_view text) { return *Key::parse(text); }

Lease granted(Waiter& waiter) {
  for (;;) {
    const auto p = waiter.poll(60s);
    if (!p) throw std::runtime_error(p.error().message);
    if (const auto* g = std::get_if<Granted>(&*p)) return g->lease;
  }
}

void uncontended(MariadbServer& server) {
  Database db{server};
  for (const char* recipe : {"lease", "get-lock"}) {
    const auto backend = open_mysql(db.url(), {}, recipe);
    const auto cycles = [&](int n) {
      for (int i = 0; i < n; ++i)
        release_or_fail(*backend, acquire_or_fail(*backend, request(key("uncontended"))));
    };
    cycles(3);  // as text, prepared, and from then on with its values alone
    const auto before = backend->counters().requests;
    cycles(100);
    must(backend->counters().requests - before == 200,
         fmt::format("{}: two statements: one takes, one gives back", recipe));
  }
}

// Clients that wait for one key, in the order of their numbers.
struct Crowd {
  Crowd(const Database& db, unsigned n) : backends(n), waiters(n) {
    for (unsigned i = 0; i < n; ++i) {
      backends[i] = open_mysql(db.url());
      waiters[i] = *backends[i]->enqueue(request(key("k"), 600s));
      const auto p = waiters[i]->poll(1us);
      if (!p || !std::holds_alternative<Waiting>(*p)) throw std::runtime_error("does not wait");
    }
  }
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiters;
};

// `n` clients that acquire and release in a loop; all wait in one queue.
void contended(MariadbServer& server, unsigned n, long grants, double most_statements,
               double most_wakes) {
  Database db{server};
  auto gate = open_mysql(db.url());
  const Lease held = acquire_or_fail(*gate, request(key("k"), 300s));
  Crowd crowd{db, n};
  const auto counts = [&] {
    std::array<std::uint64_t, 3> c{};
    for (const auto& b : crowd.backends) {
      c[0] += b->counters().requests;
      c[1] += b->counters().wakeups;
      c[2] += static_cast<mysql::LeaseBackend&>(*b).conflicts();
    }
    return c;
  };
  const auto before = counts();
  std::atomic<long> left{grants}, done{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      auto& waiter = crowd.waiters[i];
      while (left.fetch_sub(1) > 0) {
        if (!waiter) waiter = *crowd.backends[i]->enqueue(request(key("k"), 300s));
        const Lease lease = granted(*waiter);
        ++done;
        waiter.reset();
        release_or_fail(*crowd.backends[i], lease);
      }
      if (waiter) (void)waiter->cancel();
      waiter.reset();
    });
  release_or_fail(*gate, held);
  for (auto& t : threads) t.join();
  const auto after = counts();
  const auto per_grant = [&](std::size_t what) {
    return static_cast<double>(after[what] - before[what]) / static_cast<double>(done);
  };
  fmt::print("{} waiters, {} grants: {:.2f} statements, {:.2f} wake-ups, {:.3f} conflicts each\n",
             n, done.load(), per_grant(0), per_grant(1), per_grant(2));
  must(per_grant(0) <= most_statements, "statements per grant");
  must(per_grant(1) <= most_wakes, "wake-ups per grant");
  must(per_grant(2) <= 0.05, "conflicts per grant");
}

// More than the server's deadlock search depth wait at once, each with a connection; each is
// granted once, in order of arrival, whichever polls first.
void crowd(unsigned n) {
  MariadbServer server{{.config = {fmt::format("max_connections={}", n + 50)}}};
  Database db{server};
  const auto gate = open_mysql(db.url());
  const Lease held = acquire_or_fail(*gate, request(key("k"), 600s));
  Crowd crowd{db, n};
  std::vector<unsigned> order;
  std::vector<std::thread> threads;
  for (unsigned i = n; i-- > 0;)
    threads.emplace_back([&, i] {
      for (;;) {
        const auto p = crowd.waiters[i]->poll(60s);
        if (!p) continue;
        if (const auto* g = std::get_if<Granted>(&*p)) {
          order.push_back(i);  // protected by the lock alone
          return release_or_fail(*crowd.backends[i], g->lease);
        }
      }
    });
  release_or_fail(*gate, held);
  for (auto& t : threads) t.join();
  must(order.size() == n, "no waiter is lost");
  must(std::is_sorted(order.begin(), order.end()), "first come, first served");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!mariadb_installed()) return without(mariadbd);
  const bool full = argc > 1 && std::strcmp(argv[1], "--full") == 0;
  MariadbServer memory;
  uncontended(memory);
  contended(memory, 8, full ? 4000 : 800, 5.5, 1.1);
  contended(memory, 200, full ? 4000 : 1000, 6.6, 2.2);
  if (full) contended(memory, 500, 4000, 8.0, 2.8);
  crowd(full ? 1000 : 100);
  if (full) {
    MariadbServer disk{{.on_disk = true}};
    contended(disk, 8, 1000, 5.5, 1.1);
  }
  return failed ? 1 : 0;
}
