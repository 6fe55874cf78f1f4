// SPDX-License-Identifier: Apache-2.0
// Figures of recipe queue on real servers, and the promises that are counts.
// etcd_prove [--full] [PART...]
//
// Parts: rate (beside two puts), queue (exchanges per grant, hand-off), crowd (200 waiters on disk,
// again and again), faults (grants while members are stopped, killed and cut off; none may overlap
// another, and tokens rise), leader (it is stopped for 15 s and goes on, with leases of 10 s and
// two jobs at the other members, under $DLOCK and under etcdctl lock: how long both run). Counts
// are asserted, times are printed.
#include "support/prove.hpp"
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include "support/etcd_server.hpp"
#include "support/proxy.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

bool full = false;

Key key(const std::string& text) { return Key::parse(text).value(); }
double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

Settings settings(Duration op_timeout = 5s) {
  Settings s;
  s.op_timeout = op_timeout;
  return s;
}

Lease wait_for_lease(Waiter& w, Duration bound) {
  for (const Deadline end = Clock::now() + bound; Clock::now() < end;) {
    const auto p = w.poll(1s);
    if (!p && !retryable(p.error().code)) throw std::runtime_error(p.error().message);
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
  }
  throw std::runtime_error("not granted in time");
}

// ---- uncontended, beside two puts --------------------------------------------------------------

void rate(bool durable) {
  EtcdServer server{{.members = 1, .durable = durable, .flags = {}}};
  auto client = server.client();
  const auto backend = open_etcd(server.url(), settings());
  const int block = 50, blocks = full ? 12 : 4;
  Clock::duration puts{}, grants{};
  const std::uint64_t before = backend->counters().requests;
  for (int i = 0; i < blocks; ++i) {
    Deadline began = Clock::now();
    for (int n = 0; n < 2 * block; ++n)
      client.txn("put", etcd::transaction({}, {etcd::put("x", "y")}, {}), Clock::now() + 5s)
          .value();
    puts += Clock::now() - began;
    began = Clock::now();
    for (int n = 0; n < block; ++n)
      release_or_fail(*backend, acquire_or_fail(*backend, request(key("k"), 30s)));
    grants += Clock::now() - began;
  }
  const double per_grant = static_cast<double>(backend->counters().requests - before) /
                           static_cast<double>(block * blocks);
  fmt::print("rate {}: grant + release / two puts {:.2f}, {:.2f} ms; {:.1f} exchanges\n",
             durable ? "disk" : "memory", ms(puts) / ms(grants), ms(grants) / block / blocks,
             per_grant);
  must(per_grant < 3.05, "3.0 exchanges per grant without contention");
}

// ---- contended ---------------------------------------------------------------------------------

void contended(bool durable, std::size_t waiters, int rounds, double most_exchanges) {
  EtcdServer server{{.members = 1, .durable = durable, .flags = {}}};
  std::mutex mutex;
  std::vector<double> hand_offs;
  std::atomic<std::uint64_t> exchanges{0}, wakeups{0};
  std::atomic<int> inside{0}, grants{0};
  std::atomic<FencingToken> last{0};
  std::atomic<std::int64_t> released{0};
  std::atomic<bool> wrong{false};
  const Deadline began = Clock::now();
  std::vector<std::thread> all;
  std::vector<std::string> errors;
  for (std::size_t i = 0; i < waiters; ++i)
    all.emplace_back([&] {
      try {
        const auto b = open_etcd(server.url(), settings(10s));
        for (int n = 0; n < rounds; ++n) {
          const auto w = b->enqueue(request(key("k"), 30s)).value();
          const Lease lease = wait_for_lease(*w, 150s);
          const std::int64_t now = Clock::now().time_since_epoch().count();
          if (inside++ != 0 || lease.token <= last.exchange(lease.token)) wrong = true;
          if (const std::int64_t before = released; before > 0) {
            const std::lock_guard guard{mutex};
            hand_offs.push_back(static_cast<double>(now - before) / 1e6);
          }
          ++grants;
          --inside;
          released = Clock::now().time_since_epoch().count();
          b->release(lease).value();
        }
        exchanges += b->counters().requests;
        wakeups += b->counters().wakeups;
      } catch (const std::exception& e) {
        const std::lock_guard guard{mutex};
        errors.emplace_back(e.what());
      }
    });
  for (auto& t : all) t.join();
  const double per_grant = static_cast<double>(exchanges) / std::max(1, grants.load());
  fmt::print(
      "queue {} {} waiters: {} grants in {:.1f} s, exchanges {:.2f}, wake-ups {:.2f} a grant, "
      "hand-off p50 {:.1f} p99 {:.1f} max {:.0f} ms\n",
      durable ? "disk" : "memory", waiters, grants, seconds(Clock::now() - began), per_grant,
      static_cast<double>(wakeups) / std::max(1, grants.load()), quantile(hand_offs, 0.5),
      quantile(hand_offs, 0.99), quantile(hand_offs, 1));
  must(errors.empty(), errors.empty() ? "" : errors.front());
  must(!wrong, "one holder at a time, tokens rise");
  must(per_grant <= most_exchanges, fmt::format("{} exchanges a grant", most_exchanges));
}

// ---- faults ------------------------------------------------------------------------------------

// What may be held: a grant is wrong while another one, that was not released, is in force by its
// holder's own deadline; or if its token is not the newest.
class Ledger {
 public:
  void granted(const Lease& lease) {
    const std::lock_guard guard{mutex_};
    ++grants;
    if (held_ && Clock::now() < held_->deadline) ++overlaps;
    if (lease.token <= newest_) ++inversions;
    newest_ = std::max(newest_, lease.token);
    held_ = lease;
  }
  void kept(const Lease& lease) {
    const std::lock_guard guard{mutex_};
    if (held_ && held_->token == lease.token) held_->deadline = lease.deadline;
  }
  void lost(const Lease& lease) {
    const std::lock_guard guard{mutex_};
    if (held_ && held_->token == lease.token && Clock::now() < held_->deadline) ++early;
  }
  void releasing(const Lease& lease) {
    const std::lock_guard guard{mutex_};
    if (held_ && held_->token == lease.token) held_.reset();
  }
  long grants = 0, overlaps = 0, inversions = 0, early = 0;

 private:
  std::mutex mutex_;
  std::optional<Lease> held_;
  FencingToken newest_ = 0;
};

void faults(long wanted, unsigned seed) {
  constexpr Duration ttl = 4s;
  constexpr int locks = 6, clients = 3;
  EtcdServer cluster{{.members = 3, .durable = false, .flags = {}}};
  std::vector<std::unique_ptr<Proxy>> proxies;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string host = cluster.host(i);
    proxies.push_back(std::make_unique<Proxy>(
        static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1)))));
  }
  std::vector<Ledger> ledgers(locks);
  std::atomic<bool> stop{false};
  std::vector<std::thread> all;
  for (int n = 0; n < locks * clients; ++n)
    all.emplace_back([&, n] {
      Ledger& ledger = ledgers[static_cast<std::size_t>(n % locks)];
      std::mt19937 random(seed + static_cast<unsigned>(n));
      std::string url = "etcd://";
      for (std::size_t i = 0; i < 3; ++i)
        url += fmt::format("{}127.0.0.1:{}", i == 0 ? "" : ",",
                           proxies[(i + static_cast<std::size_t>(n)) % 3]->port());
      const auto b = open_etcd(url, settings(ttl / 6));
      while (!stop) {
        const auto w = b->enqueue(request(key(fmt::format("k{}", n % locks)), ttl)).value();
        std::optional<Lease> lease;
        while (!stop && !lease) {
          const auto p = w->poll(500ms);
          if (p && std::holds_alternative<Granted>(*p)) lease = std::get<Granted>(*p).lease;
          if (!p) ::usleep(20000);
        }
        // as the start rule has it: a grant that is nearly over starts nothing
        if (lease && Clock::now() + ttl / 4 > lease->deadline) {
          (void)w->cancel();
          continue;
        }
        if (!lease) {
          (void)w->cancel();
          break;
        }
        ledger.granted(*lease);
        // most hold for a moment; some for longer than the ttl
        const bool keeps = random() % 400 == 0;
        const Deadline until = Clock::now() + (keeps ? Duration{ttl * 3 / 2} : Duration{0});
        bool mine = true;
        while (mine && Clock::now() < until && !stop) {
          ::usleep(static_cast<useconds_t>((ttl / 3).count()));
          const auto r = b->renew(*lease, ttl);
          const auto* kept = r ? std::get_if<Kept>(&*r) : nullptr;
          if (kept) ledger.kept(*lease = kept->lease);
          else if (r) ledger.lost(*lease);
          mine = !r || kept;
          if (Clock::now() >= lease->deadline) break;
        }
        ledger.releasing(*lease);
        for (int tries = 0; tries < 3 && !b->release(*lease); ++tries) ::usleep(50000);
      }
    });
  std::mt19937 random(seed);
  std::map<std::string, int> done;
  const auto total = [&] {
    long n = 0;
    for (const Ledger& l : ledgers) n += l.grants;
    return n;
  };
  const Deadline began = Clock::now();
  const Deadline end = began + (full ? 1500s : 60s);
  while (total() < wanted && Clock::now() < end) {
    ::usleep(1500000);
    const std::size_t leader = cluster.leader(), follower = cluster.follower(),
                      which = random() % 2 == 0 ? leader : follower;
    const auto hurt = std::chrono::milliseconds{200 + random() % 7000};
    const char* name = which == leader ? "leader" : "follower";
    const auto wait = [&] { std::this_thread::sleep_for(hurt); };
    switch (random() % 4) {
      case 0:
        ++done[fmt::format("stopped {}", name)];
        cluster.freeze(which);
        wait();
        cluster.thaw(which);
        break;
      case 1:
        ++done[fmt::format("killed {}", name)];
        cluster.kill(which);
        wait();
        cluster.start(which);
        break;
      case 2:
        ++done[fmt::format("cut {}", name)];
        proxies[which]->refuse(true);
        proxies[which]->cut();
        wait();
        proxies[which]->refuse(false);
        break;
      default:
        ++done[fmt::format("late {}", name)];
        proxies[which]->hold(random() % 2 == 0 ? "/v3/kv/txn" : "/v3/lease/");
        wait();
        proxies[which]->let_go();
    }
    cluster.wait_ready();
  }
  stop = true;
  for (auto& t : all) t.join();
  long overlaps = 0, inversions = 0, early = 0;
  for (const Ledger& l : ledgers) {
    overlaps += l.overlaps;
    inversions += l.inversions;
    early += l.early;
  }
  fmt::print("faults: {} grants in {:.0f} s, {} overlaps, {} token inversions, {} lost early;",
             total(), seconds(Clock::now() - began), overlaps, inversions, early);
  for (const auto& [what, n] : done) fmt::print(" {} {}", n, what);
  fmt::print("\n");
  must(overlaps == 0 && inversions == 0 && early == 0, "no violation");
  must(total() >= (full ? wanted : 200), "grants");
}

// ---- the leader is stopped and goes on ---------------------------------------------------------

// For how long two jobs were alive at a time.
Clock::duration together(bool by_etcdctl) {
  EtcdServer cluster{{.members = 3, .durable = true, .flags = {}}};
  TestDirectory dir;
  const std::size_t leader = cluster.leader();
  std::vector<std::string> others;
  for (std::size_t i = 0; i < 3; ++i)
    if (i != leader) others.push_back(cluster.host(i));
  const auto pid_of = [&](int job) {
    std::FILE* file = std::fopen(fmt::format("{}/{}", dir.path(), job).c_str(), "re");
    int pid = 0;
    if (file && std::fscanf(file, "%d", &pid) != 1) pid = 0;
    if (file) std::fclose(file);
    return pid > 0 && ::kill(pid, 0) == 0 ? pid : 0;
  };
  std::vector<pid_t> programs;
  const auto begin = [&](int job) {
    const std::string script = fmt::format("echo $$ >{}/{}; exec sleep 120", dir.path(), job);
    std::vector<std::string> words{std::getenv("DLOCK"),
                                   "run",
                                   "-b",
                                   fmt::format("etcd://{},{}", others[0], others[1]),
                                   "--key",
                                   "k",
                                   "--ttl",
                                   "10s",
                                   "--",
                                   "sh",
                                   "-c",
                                   script};
    if (by_etcdctl)
      words = {"env",     "ETCDCTL_API=3",
               "etcdctl", fmt::format("--endpoints=http://{},http://{}", others[0], others[1]),
               "lock",    "--ttl",
               "10",      "k",
               "--",      "sh",
               "-c",      script};
    programs.push_back(start_server(words));
  };
  begin(0);
  for (const Deadline end = Clock::now() + 20s; pid_of(0) == 0; ::usleep(20000))
    if (Clock::now() > end) throw std::runtime_error("no job");
  begin(1);
  // etcdctl's keepalive is due a third of the ttl after the grant: the leader stops with it
  std::this_thread::sleep_for(3s);
  Clock::duration both{};
  const Deadline began = Clock::now();
  bool stopped = false, went_on = false;
  for (Deadline last = began; last < began + 50s;) {
    ::usleep(5000);
    const Deadline now = Clock::now();
    if (pid_of(0) != 0 && pid_of(1) != 0) both += now - last;
    last = now;
    if (!std::exchange(stopped, true)) cluster.freeze(leader);
    if (now > began + 15s && !std::exchange(went_on, true)) cluster.thaw(leader);
  }
  for (const pid_t pid : programs) ::kill(pid, SIGTERM);
  for (const int job : {0, 1})
    if (const int pid = pid_of(job); pid > 0) ::kill(pid, SIGKILL);
  return both;
}

void leader() {
  if (!std::getenv("DLOCK") || !installed("etcdctl")) return;
  for (int i = 0; i < (full ? 3 : 1); ++i) {
    const auto ours = together(false), theirs = together(true);
    fmt::print(
        "leader stopped for 15 s, ttl 10 s: two jobs together for {:.1f} s under dlock, "
        "{:.1f} s under etcdctl lock\n",
        seconds(ours), seconds(theirs));
    must(ours == Clock::duration{}, "one job at a time");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!installed(etcd_program)) return without(etcd_program);
  std::vector<std::string_view> parts;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--full") full = true;
    else parts.emplace_back(argv[i]);
  }
  const auto wanted = [&](std::string_view part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  try {
    if (wanted("rate"))
      for (const bool disk : {false, true}) rate(disk);
    if (wanted("queue")) {
      contended(false, 1, full ? 400 : 50, 3.05);
      contended(false, 8, full ? 200 : 25, 5.3);
      contended(false, 200, full ? 10 : 2, 5.6);
    }
    if (wanted("crowd"))
      for (int i = 0; i < (full ? 6 : 1); ++i) contended(true, 200, 5, 5.6);
    if (wanted("leader")) leader();
    if (wanted("faults")) faults(full ? 20000 : 3000, std::random_device{}());
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}
