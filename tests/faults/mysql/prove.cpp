// SPDX-License-Identifier: Apache-2.0
// Figures of recipe lease and get-lock on a real server, and the promises that are counts. mysql_prove [--full|rates]
//
// Counts of statements are our own and the server's (Questions) and are asserted; times are printed and compared with what mariadb-slap does with the raw
// statements on the same server in the same run.
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include "mysql/lease_backend.hpp"
#include "support/mariadb_server.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

bool failed = false;
void must(bool so, const std::string& what) {
  if (so) return;
  failed = true;
  fmt::print("NOT MET: {}\n", what);
}

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

template <class T>
T quantile(std::vector<T> v, double q) {
  if (v.empty()) return {};
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

Key key(std::string_view text) { return *Key::parse(text); }

// Rounds per second of a few statements over one connection, by mariadb-slap. A round of several statements is several queries to it.
double slap(MariadbServer& server, const std::string& statements, int per_round, long rounds) {
  const std::string command = fmt::format(
      "mariadb-slap --no-defaults --user=root --host=127.0.0.1 --port={} --concurrency=1 --number-of-queries={} --delimiter=';' "
      "--create-schema=slap --no-drop --csv --query=\"{}\" 2>/dev/null",
      server.port(), rounds * per_round, statements);
  std::FILE* out = ::popen(command.c_str(), "re");
  char line[512];
  double took = 0;
  while (out && std::fgets(line, sizeof line, out)) {
    const char* comma = std::strchr(line, ',');
    if (comma && (comma = std::strchr(comma + 1, ','))) took = std::atof(comma + 1);
  }
  if (out) ::pclose(out);
  return took > 0 ? static_cast<double>(rounds) / took : 0;
}

void uncontended(MariadbServer& server, const char* where, long n, double lease_wanted) {
  server.sql("CREATE DATABASE IF NOT EXISTS slap");
  server.sql("CREATE TABLE IF NOT EXISTS slap.c(k INT PRIMARY KEY, version BIGINT, state BLOB)");
  server.sql("INSERT IGNORE INTO slap.c VALUES(1,0,'')");
  Database db{server};
  const std::string swap = "UPDATE slap.c SET version=version+1,state=REPEAT('x',120) WHERE k=1 AND version>=0";
  struct Case {
    const char* recipe;
    std::string raw;
    double wanted;
  };
  for (const Case& c : {Case{"lease", swap + ";" + swap, lease_wanted},
                        Case{"get-lock", "SELECT GET_LOCK('slap',0);SELECT RELEASE_LOCK('slap')", 0.8}}) {
    auto backend = open_mysql(db.url(), {}, c.recipe);
    const Key k = key("uncontended");
    release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    const auto before = backend->counters().requests;
    Request asked = request(k);
    const auto cycle = [&] {
      asked.owner = Owner::random();
      release_or_fail(*backend, acquire_or_fail(*backend, asked));
    };
    double ours = 0, theirs = 0;
    constexpr int turns = 3;
    for (int i = 0; i < turns; ++i) {  // the best of three each, interleaved: the machine is not ours alone
      const auto began = Clock::now();
      for (long j = 0; j < n; ++j) cycle();
      ours = std::max(ours, static_cast<double>(n) / seconds(Clock::now() - began));
      theirs = std::max(theirs, slap(server, c.raw, 2, n));
    }
    const double statements = static_cast<double>(backend->counters().requests - before) / static_cast<double>(turns * n);
    fmt::print(
        "{}, {}: {:.0f} acquire+release per s on one connection, {:.2f} statements each; mariadb-slap, raw: {:.0f}/s; ratio "
        "{:.2f} "
        "(wanted {})\n",
        where, c.recipe, ours, statements, theirs, theirs > 0 ? ours / theirs : 0, c.wanted);
    must(statements <= 2.01, "two statements: one takes, one gives back");
  }
}

// `n` clients that take and release at once, over and over; all wait in one queue.
void contended(MariadbServer& server, unsigned n, long grants, double most_statements, double most_wakes) {
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
      "{} waiters, {} grants: {:.2f} statements, {:.3f} conflicts, {:.2f} wake-ups per grant; {:.0f} grants/s; hand-off (release "
      "sent to next grant) p50 {:.2f} ms, p99 {:.2f} ms\n",
      n, done, statements, conflicts, wakes, per / took, quantile(hand_offs, 0.5), quantile(hand_offs, 0.99));
  must(statements <= most_statements, "statements per grant");
  must(wakes <= most_wakes, "wake-ups per grant");
  must(conflicts <= 0.05, "conflicts per grant");
}

// Waiters that queued one after the other are granted in that order, whoever polls first.
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
            order.push_back(i);  // nothing but the lock protects it
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

// A child that takes the lock and then holds it, or waits behind it.
struct Child {
  pid_t pid;
  int out;
  template <class Body>
  explicit Child(Body body) {
    int fds[2];
    if (::pipe(fds) != 0) throw std::runtime_error("pipe");
    pid = ::fork();
    if (pid == 0) {
      body(fds[1]);
      for (;;) ::pause();
    }
    ::close(fds[1]);
    out = fds[0];
    char ready;
    if (::read(out, &ready, 1) != 1) throw std::runtime_error("the child does not begin");
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(out);
  }
};

double wait_for_grant(Backend& b, const Key& k, const std::function<void()>& then) {
  auto w = *b.enqueue(request(k, 10s));
  (void)w->poll(50ms);
  then();
  const auto began = Clock::now();
  for (;;) {
    const auto p = w->poll(60s);
    if (p && std::holds_alternative<Granted>(*p)) {
      const double took = seconds(Clock::now() - began);
      release_or_fail(b, std::get<Granted>(*p).lease);
      return took;
    }
  }
}

void gone(MariadbServer& server) {
  Database db{server};
  for (const auto& [what, how] : {std::pair{"killed", 0}, {"stopped", 1}, {"disconnected", 2}}) {
    const Key k = key(fmt::format("holder-{}", what));
    const auto granted_at = Clock::now();
    Child holder{[&](int out) {
      const auto b = open_mysql(db.url());
      acquire_or_fail(*b, request(k, 2s));
      (void)!::write(out, "!", 1);
      for (;;) ::pause();
    }};
    const auto b = open_mysql(db.url());
    wait_for_grant(*b, k, [&, how = how] {
      if (how == 0) ::kill(holder.pid, SIGKILL);
      if (how == 1) ::kill(holder.pid, SIGSTOP);
      if (how == 2) {
        const auto id =
            server.value(fmt::format("SELECT ID FROM information_schema.processlist WHERE DB='{}' AND COMMAND='Sleep' AND ID<>"
                                     "CONNECTION_ID() AND USER='root' AND INFO IS NULL ORDER BY ID DESC LIMIT 1",
                                     db.name()));
        if (!id.empty()) server.sql("KILL " + id);
      }
    });
    const double total = seconds(Clock::now() - granted_at);
    fmt::print("holder {}, ttl 2 s: next grant {:.3f} s after the first was asked for\n", what, total);
    must(total >= 1.95, "never before the lease ends");
    must(total < 2.6, "soon after");
  }
  std::vector<double> times, plain;
  for (int i = 0; i < 10; ++i) {
    const Key k = key(fmt::format("head-{}", i));
    const auto holder = open_mysql(db.url()), b = open_mysql(db.url());
    const Lease held = acquire_or_fail(*holder, request(k, 60s));
    Child head{[&](int out) {
      const auto mine = open_mysql(db.url());
      auto w = *mine->enqueue(request(k, 60s));
      (void)w->poll(0us);
      (void)!::write(out, "!", 1);
      for (;;) (void)w->poll(60s);
    }};
    times.push_back(wait_for_grant(*b, k, [&] {
      ::kill(head.pid, SIGKILL);
      ::waitpid(head.pid, nullptr, 0);
      release_or_fail(*holder, held);
    }));
    const Lease again = acquire_or_fail(*holder, request(k, 60s));
    plain.push_back(wait_for_grant(*b, k, [&] { release_or_fail(*holder, again); }));
  }
  fmt::print(
      "head waiter killed, then the lock released: next grant after p50 {:.1f} ms, max {:.1f} ms; without a dead head p50 {:.1f} "
      "ms\n",
      quantile(times, 0.5) * 1e3, quantile(times, 1.0) * 1e3, quantile(plain, 0.5) * 1e3);
}

// What is forked meanwhile stays on one processor: servers on the first, clients on the second, as if they were two hosts. Else it is by chance
// whether an exchange crosses processors, which doubles its price. With one processor nothing is to choose.
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

// On servers with the buffers that they have by default: the small ones of other tests are full of old versions of a row that changes ten thousand
// times a second, and then the server writes pages instead of answering.
void rates(bool full) {
  const auto measure = [](const char* where, long n, double lease_wanted, MariadbServer::Setup setup) {
    setup.config = {"innodb_buffer_pool_size=128M", "innodb_log_file_size=96M"};
    std::optional<MariadbServer> server;
    {
      const OnOneCpu first{0};
      server.emplace(std::move(setup));
    }
    const OnOneCpu second{1};
    uncontended(*server, where, n, lease_wanted);
  };
  measure("data in memory", full ? 5000 : 500, 0.45, {});
  if (!full) return;
  measure("data on this disk", 5000, 0.7, {.on_disk = true});
  measure("every sync of this disk 1 ms longer", 1000, 0.7,
          {.environment = {"LD_PRELOAD=" SLOW_SYNC, "SYNC_DELAY_US=1000"}, .on_disk = true});
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!mariadb_installed()) return without(mariadbd);
  const bool full = argc > 1 && std::strcmp(argv[1], "--full") == 0;
  if (argc > 1 && std::strcmp(argv[1], "rates") == 0) return rates(true), failed;
  MariadbServer memory;
  gone(memory);  // first: it forks
  fifo(memory, 40, full ? 10 : 2);
  contended(memory, 8, full ? 4000 : 800, 9.3, 1.1);
  contended(memory, 200, full ? 4000 : 1000, 11.6, 2.2);
  rates(full);
  if (full) {
    MariadbServer disk{{.on_disk = true}};
    contended(disk, 8, 1000, 9.3, 1.1);
  }
  return failed ? 1 : 0;
}
