// SPDX-License-Identifier: Apache-2.0
// Figures of recipe lease on a real server, and the promises that are counts.
// postgresql_prove [--full|rates|dead]
//
// Counts of exchanges are our own and are asserted; times are printed and compared with two
// prepared updates of one row, over the same library and server in the same run.
#include "support/prove.hpp"
#include <sched.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>
#include "postgresql/lease/lease_table.hpp"
#include "support/postgres_server.hpp"

namespace dlock::prove {
namespace {

using namespace dlock::test;
using namespace std::chrono_literals;

Key key(std::string_view text) { return *Key::parse(text); }

// `n` clients that acquire and release in a loop; all wait in one queue.
void contended(PostgresServer& server, unsigned n, long grants, double most_exchanges,
               double most_wakes) {
  PostgresDatabase db{server};
  const Key k = key("contended");
  auto gate = open_postgres(db.url());
  const Lease held = acquire_or_fail(*gate, request(k, 300s));
  std::vector<std::unique_ptr<Backend>> backends(n);
  std::vector<std::unique_ptr<Waiter>> waiters(n);
  for (unsigned i = 0; i < n; ++i) {
    backends[i] = open_postgres(db.url());
    waiters[i] = *backends[i]->enqueue(request(k, 300s));
    const auto p = waiters[i]->poll(1ms);
    if (!p || !std::holds_alternative<Waiting>(*p)) throw std::runtime_error("does not wait");
  }
  const auto counts = [&] {
    std::array<std::uint64_t, 3> c{};
    for (const auto& b : backends) {
      c[0] += b->counters().requests;
      c[1] += b->counters().wakeups;
      c[2] += static_cast<postgresql::LeaseBackend&>(*b).conflicts();
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
  const double exchanges = static_cast<double>(after[0] - before[0]) / per,
               wakes = static_cast<double>(after[1] - before[1]) / per,
               conflicts = static_cast<double>(after[2] - before[2]) / per;
  fmt::print(
      "{} waiters, {} grants: {:.2f} exchanges, {:.3f} conflicts, {:.2f} wake-ups per grant; "
      "{:.0f} grants/s; hand-off (release "
      "sent to next grant) p50 {:.2f} ms, p99 {:.2f} ms\n",
      n, done, exchanges, conflicts, wakes, per / took, quantile(hand_offs, 0.5),
      quantile(hand_offs, 0.99));
  // Each waiter looks every 5 s, too, which counts where grants are slow.
  const double looks = took / 5 * n / per;
  must(exchanges - looks <= most_exchanges, "exchanges per grant");
  must(wakes - looks <= most_wakes, "wake-ups per grant");
  must(conflicts <= 0.05, "conflicts per grant");
}

// Waiters that queued one after the other are granted in that order, whichever polls first.
void fifo(PostgresServer& server, unsigned n, int rounds) {
  PostgresDatabase db{server};
  const Key k = key("fifo");
  long violations = 0, grants = 0;
  for (int round = 0; round < rounds; ++round) {
    auto gate = open_postgres(db.url());
    const Lease held = acquire_or_fail(*gate, request(k, 300s));
    std::vector<std::unique_ptr<Backend>> backends(n);
    std::vector<std::unique_ptr<Waiter>> waiters(n);
    for (unsigned i = 0; i < n; ++i) {
      backends[i] = open_postgres(db.url());
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

// Later forks stay on one processor: servers on the first, clients on the second, as if they were
// two hosts. Otherwise chance decides whether an exchange crosses processors, which doubles its
// cost. With one processor there is no choice.
class OnOneCpu {
 public:
  explicit OnOneCpu(int which) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_) && seen++ == which) CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1) ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

double per_second(long n, const auto& cycle) {
  const auto began = Clock::now();
  for (long i = 0; i < n; ++i) cycle();
  return static_cast<double>(n) / seconds(Clock::now() - began);
}

// One client: acquire and release beside two prepared updates of one row, in turns.
void uncontended(const char* where, long n, double wanted, PostgresServer::Setup setup) {
  std::optional<PostgresServer> own;
  {
    const OnOneCpu first{0};
    own.emplace(std::move(setup));
  }
  const OnOneCpu second{1};
  PostgresDatabase db{*own};
  const auto backend = open_postgres(db.url());
  const Key k = key("uncontended");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  db.sql("CREATE TABLE pair(name text PRIMARY KEY, n bigint) WITH (fillfactor=50)");
  db.sql("INSERT INTO pair VALUES('a',0)");
  postgresql::Options o;
  o.user = "postgres";
  o.database = db.name();
  o.op_timeout = 5s;
  auto raw = std::move(*postgresql::Connection::open(o, {"127.0.0.1", own->port(), {}}, 5s));
  const postgresql::Statement up{"up", "UPDATE pair SET n=n+1 WHERE name=$1"};
  Request asked = request(k);
  const auto ours = [&] {
    asked.owner = Owner::random();
    release_or_fail(*backend, acquire_or_fail(*backend, asked));
  };
  const auto pair = [&] {
    for (int i = 0; i < 2; ++i)
      if (!raw->query("pair", {up, {"a"}}, Clock::now() + 5s)) throw std::runtime_error("pair");
  };
  const auto before = backend->counters().requests;
  constexpr int turns = 7;
  std::vector<double> all, their, ratios;
  for (int i = 0; i < turns; ++i) {
    their.push_back(per_second(n, pair));
    all.push_back(per_second(n, ours));
    ratios.push_back(all.back() / their.back());
  }
  const double exchanges =
      static_cast<double>(backend->counters().requests - before) / static_cast<double>(turns * n);
  fmt::print(
      "{}: {:.0f} acquire+release per s, {:.2f} exchanges each; two updates {:.0f}/s; ratio "
      "{:.2f} (wanted {}); medians of {}\n",
      where, quantile(all, 0.5), exchanges, quantile(their, 0.5), quantile(ratios, 0.5), wanted,
      turns);
  must(exchanges <= 2.01, "two exchanges: one takes, one gives back");
}

void rates(bool full) {
  uncontended("data in memory", full ? 4000 : 300, 0.75, {});
  if (!full) return;
  uncontended("data on this disk", 1000, 0.85, {.on_disk = true});
  uncontended("every sync of this disk 1 ms longer", 500, 0.85,
              {.environment = {"LD_PRELOAD=" SLOW_SYNC, "SYNC_DELAY_US=1000"}, .on_disk = true});
}

// What a transaction that stays open elsewhere in the database costs, after so many grants.
void dead_versions(std::initializer_list<long> marks) {
  PostgresServer server;
  PostgresDatabase db{server};
  const auto backend = open_postgres(db.url());
  const Key k = key("hot");
  const auto cycle = [&] { release_or_fail(*backend, acquire_or_fail(*backend, request(k))); };
  const auto report = [&](std::string_view when) {
    constexpr long few = 300;
    const double grants = per_second(few, cycle);
    std::vector<double> looks;
    for (int i = 0; i < 21; ++i)
      looks.push_back(1e3 / per_second(1, [&] {
                        if (!backend->inspect(k)) throw std::runtime_error("inspect");
                      }));
    fmt::print("{}: {:.0f} acquire+release per s, inspect p50 {:.2f} ms\n", when, grants,
               quantile(looks, 0.5));
  };
  per_second(1000, cycle);
  report("no transaction elsewhere");
  db.sql("BEGIN ISOLATION LEVEL REPEATABLE READ");
  db.sql("SELECT count(*) FROM dlock_lock");
  long done = 0;
  for (const long mark : marks) {
    per_second(mark - done, cycle);
    done = mark;
    report(fmt::format("a long transaction elsewhere, {} grants", mark));
  }
  db.sql("COMMIT");
  per_second(1000, cycle);
  report("1000 grants after its end");
}

}  // namespace
}  // namespace dlock::prove

using namespace dlock::prove;

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!postgres_installed()) return without("postgres");
  const auto is = [&](const char* word) { return argc > 1 && std::strcmp(argv[1], word) == 0; };
  if (is("rates")) return rates(true), failed;
  if (is("dead")) return dead_versions({1'000, 10'000, 50'000}), 0;
  const bool full = is("--full");
  PostgresServer memory;
  fifo(memory, 40, full ? 10 : 2);
  contended(memory, 8, full ? 4000 : 800, 5.2, 1.2);
  contended(memory, 200, full ? 4000 : 1000, 6.1, 1.5);
  if (full) contended(memory, 500, 4000, 7.1, 2.0);
  rates(full);
  if (full) dead_versions({1'000, 10'000});
  return failed ? 1 : 0;
}
