// SPDX-License-Identifier: Apache-2.0
// Figures of the ZooKeeper recipes on real servers, and the promises that are counts. zookeeper_prove [--full] [PART...]
//
// Parts: rate, queue, relist, killed, run, cut. `cut` needs root (network namespaces) and is left out without. Counts are asserted, times are printed.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include "support/proxy.hpp"
#include "support/zookeeper_client.hpp"
#include "zookeeper/base.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

bool failed = false, full = false;

void must(bool so, const std::string& what) {
  if (so) return;
  failed = true;
  fmt::print("NOT MET: {}\n", what);
}

double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
std::int64_t nanos() { return Clock::now().time_since_epoch().count(); }

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1))];
}

Key key(const std::string& text) { return Key::parse(text).value(); }

Lease wait_for_lease(Backend& b, const Request& r, Duration bound = 60s) {
  const auto w = b.enqueue(r).value();
  for (const Deadline end = Clock::now() + bound; Clock::now() < end;) {
    const auto p = w->poll(1s);
    if (!p && !retryable(p.error().code)) throw std::runtime_error(p.error().message);
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
  }
  throw std::runtime_error("not granted in time");
}

template <class Body>
double per_second(Duration span, Body body) {
  long n = 0;
  const Deadline began = Clock::now();
  while (Clock::now() < began + span) {
    body();
    ++n;
  }
  return static_cast<double>(n) / (ms(Clock::now() - began) / 1000);
}

// ---- uncontended ---------------------------------------------------------------------------------------------------------

// The C client's own synchronous calls, from the library with threads, where it is installed.
double plain_loop(const std::string& host, Duration span) {
  void* lib = ::dlopen("libzookeeper_mt.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return 0;
  const auto init = reinterpret_cast<void* (*)(const char*, void*, int, const void*, void*, int)>(::dlsym(lib, "zookeeper_init"));
  const auto close = reinterpret_cast<int (*)(void*)>(::dlsym(lib, "zookeeper_close"));
  const auto state = reinterpret_cast<int (*)(void*)>(::dlsym(lib, "zoo_state"));
  const auto debug = reinterpret_cast<void (*)(int)>(::dlsym(lib, "zoo_set_debug_level"));
  const auto create =
      reinterpret_cast<int (*)(void*, const char*, const char*, int, const void*, int, char*, int)>(::dlsym(lib, "zoo_create"));
  const auto remove = reinterpret_cast<int (*)(void*, const char*, int)>(::dlsym(lib, "zoo_delete"));
  const void* acl = ::dlsym(lib, "ZOO_OPEN_ACL_UNSAFE");
  if (!init || !close || !state || !debug || !create || !remove || !acl) return 0;
  debug(0);
  void* zh = init(host.c_str(), nullptr, 10000, nullptr, nullptr, 0);
  constexpr int connected = 3, ephemeral = 1;
  for (const Deadline end = Clock::now() + 10s; state(zh) != connected && Clock::now() < end;) ::usleep(1000);
  const double rate = per_second(span, [&] {
    if (create(zh, "/plain", "", 0, acl, ephemeral, nullptr, 0) != 0 || remove(zh, "/plain", -1) != 0)
      throw std::runtime_error("the plain loop fails");
  });
  close(zh);
  return rate;
}

double same_library_loop(const std::string& url, Duration span) {
  RawZookeeper raw{url};
  return per_second(span, [&] {
    raw.make("/plain2");
    raw.remove("/plain2");
  });
}

void rate() {
  ZookeeperServer server{{.tick = 2000ms}};
  auto backend = open_zookeeper(server.url() + "/rate");
  const Key k = key("uncontended");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const Duration span = full ? Duration{3s} : Duration{500ms};
  const auto ours = [&] { return per_second(span, [&] { release_or_fail(*backend, acquire_or_fail(*backend, request(k))); }); };
  const std::uint64_t before = backend->counters().requests;
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  fmt::print("uncontended: {} requests per acquire and release\n", backend->counters().requests - before);
  must(backend->counters().requests - before == 3, "create, list, delete: nothing else when nobody contends");
  std::vector<double> ratios;
  double plain = 0, same = 0, own = 0;
  for (int round = 0; round < (full ? 5 : 3); ++round) {  // interleaved: the machine is not ours alone
    const double p = plain_loop(server.host(), span), s = same_library_loop(server.url(), span), o = ours();
    if (p > 0) ratios.push_back(o / p);
    plain = std::max(plain, p);
    same = std::max(same, s);
    own = std::max(own, o);
  }
  fmt::print(
      "acquire and release on one session, best of the rounds: {:.0f}/s; create and delete by the C client's synchronous calls: "
      "{:.0f}/s; "
      "by the library used here: {:.0f}/s; median ratio to the first {:.2f}, of the bests {:.2f}\n",
      own, plain, same, quantile(ratios, 0.5), plain > 0 ? own / plain : 0);
  if (const char* script = std::getenv("KAZOO_RATE")) {
    const std::string command = fmt::format("/usr/bin/python3 {} {} {}", script, server.host(), full ? 3 : 1);
    std::fflush(stdout);
    if (std::system(command.c_str()) != 0) fmt::print("kazoo: not measured\n");
  }
}

// ---- contended -----------------------------------------------------------------------------------------------------------

void contended(std::string_view recipe, unsigned n, Request example) {
  ZookeeperServer server{{.durable = true}};
  const std::string url = server.url() + "/queue" + (recipe == "sequential" ? "" : "?prefix=locks/");
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
    if (!std::holds_alternative<Waiting>(waiters[i]->poll(2ms).value())) throw std::runtime_error("does not wait");
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
  ::usleep(200000);  // not needed for the result: lets all of them sleep, so that hand-offs are of sleepers
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
      "{}{}, {} waiters: {:.2f} watch events per grant, {:.2f} requests per grant (after joining: create, list, watch), {:.0f} "
      "grants/s, hand-off p50 "
      "{:.2f} ms p99 {:.2f} ms, in order of arrival: {}\n",
      recipe, limit > 1 ? fmt::format(" with {} permits", limit) : "", n, per_grant, static_cast<double>(requests) / n,
      n / seconds, quantile(hand_offs, 0.5), quantile(hand_offs, 0.99), sorted ? "yes" : "no");
  must(most <= limit, "never more inside than allowed");
  if (recipe == "sequential" && limit == 1) {
    must(per_grant <= 1.01, "one watch event per grant");
    must(sorted, fmt::format("first come, first served at {} waiters", n));
  }
  if (limit > 1) must(per_grant <= 4, "a few watch events per permit, whatever the number of waiters");
}

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

// ---- processes that are killed, on a slow network -----------------------------------------------------------------------

struct Shared {
  std::atomic<int> holder;
  std::atomic<bool> stop;
  std::atomic<long> grants, overlaps, inversions, relists, errors;
  std::atomic<std::uint64_t> last;
};

[[noreturn]] void contender(Shared& s, const std::string& url, unsigned seed) {
  ::signal(SIGTERM, SIG_DFL);
  std::mt19937 random{seed};
  try {
    auto backend = open_zookeeper(url);
    while (!s.stop) {
      const Lease l = wait_for_lease(*backend, request(key("relist"), 1s), 30s);
      int nobody = 0;
      if (!s.holder.compare_exchange_strong(nobody, ::getpid())) ++s.overlaps;
      if (s.last.exchange(l.token) >= l.token) ++s.inversions;
      ++s.grants;
      ::usleep(static_cast<unsigned>(random() % 4000));
      int me = ::getpid();
      s.holder.compare_exchange_strong(me, 0);
      const auto r = backend->release(l);
      if (!r) (void)backend->release(l);
      auto& base = dynamic_cast<zookeeper::Base&>(*backend);
      s.relists += static_cast<long>(std::exchange(base.relists, 0));
    }
  } catch (const std::exception& e) {
    ++s.errors;
    fmt::print("contender: {}\n", e.what());
    std::fflush(stdout);
  }
  ::_exit(0);
}

void relist() {
  ZookeeperServer server{{.durable = false}};
  Proxy slow{server.port()};
  slow.delay(Proxy::to_client,
             4ms);  // between the answer to a list and the watch lies a round trip: so long may the predecessor go
  slow.delay(Proxy::to_server, 4ms);
  auto* s = static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  constexpr std::size_t n = 3;  // few, so that the one before a newcomer may be about to go
  const std::string fast = server.url() + "/r", far = fmt::format("zookeeper://127.0.0.1:{}/r", slow.port());
  unsigned seed = 1;
  std::vector<pid_t> pids(n);
  const auto spawn = [&](std::size_t i) {
    const pid_t parent = ::getpid();
    const pid_t p = ::fork();
    if (p == 0) {
      if (::getppid() != parent) ::_exit(1);
      contender(*s, i % 2 ? far : fast, ++seed);
    }
    ++seed;
    return p;
  };
  for (std::size_t i = 0; i < n; ++i) pids[i] = spawn(i);
  std::mt19937 random{7};
  long kills = 0, holders = 0;
  const Deadline began = Clock::now(), end = began + (full ? 60s : 5s);
  double worst = 0;
  long seen = 0;
  Deadline seen_at = began;
  for (Deadline next = began + 1500ms; Clock::now() < end;) {
    ::usleep(2000);
    if (s->grants != seen) {
      worst = std::max(worst, ms(Clock::now() - seen_at));
      seen = s->grants;
      seen_at = Clock::now();
    }
    if (Clock::now() < next) continue;
    std::size_t victim = random() % n;
    if (const int h = s->holder; h != 0 && random() % 2)
      victim = static_cast<std::size_t>(std::find(pids.begin(), pids.end(), h) - pids.begin()) % n;
    ::kill(pids[victim], SIGKILL);
    ::waitpid(pids[victim], nullptr, 0);
    ++kills;
    int me = pids[victim];
    holders += s->holder.compare_exchange_strong(me, 0);
    pids[victim] = spawn(victim);
    next = Clock::now() + 1500ms + Duration{random() % 300'000};
  }
  s->stop = true;
  const Deadline stopped = Clock::now();
  for (const pid_t p : pids) ::waitpid(p, nullptr, 0);
  fmt::print(
      "3 processes, one of them 8 ms away, 1 s sessions: {} grants, {} kills ({} of the holder), {} lists again because the "
      "predecessor had gone, {} overlaps, {} "
      "tokens out of order, {} waiters lost, longest gap without a grant {:.0f} ms, the last one done {:.0f} ms after the end\n",
      s->grants.load(), kills, holders, s->relists.load(), s->overlaps.load(), s->inversions.load(), s->errors.load(), worst,
      ms(Clock::now() - stopped));
  must(s->overlaps == 0 && s->inversions == 0, "one at a time, tokens rising");
  must(s->errors == 0, "no waiter is lost");
  must(!full || s->relists > 0, "the race was met");
}

// ---- a killed holder -----------------------------------------------------------------------------------------------------

void killed() {
  constexpr Duration tick = 200ms, ttl = 2s;
  ZookeeperServer server{{.tick = tick}};
  std::vector<double> took;
  for (int i = 0; i < (full ? 20 : 2); ++i) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    const std::string url = server.url() + "/killed";
    const pid_t holder = ::fork();
    if (holder == 0) {
      auto b = open_zookeeper(url);
      Lease l = wait_for_lease(*b, request(key("k"), ttl));
      for (bool told = false;;) {
        if (!std::holds_alternative<Kept>(b->renew(l, ttl).value())) ::_exit(1);
        if (!std::exchange(told, true)) (void)!::write(ready[1], "x", 1);
        ::usleep(static_cast<unsigned>(ttl.count() / 6));
      }
    }
    char x;
    ::close(ready[1]);
    (void)!::read(ready[0], &x, 1);
    ::close(ready[0]);
    auto b = open_zookeeper(url);
    const auto w = b->enqueue(request(key("k"), ttl)).value();
    (void)w->poll(Duration{static_cast<long>(i) * 40'000 % 340'000 + 1000});
    const Deadline dead = Clock::now();
    ::kill(holder, SIGKILL);
    for (;;) {
      const auto p = w->poll(10s);
      if (!p || !std::holds_alternative<Granted>(*p)) continue;
      took.push_back(ms(Clock::now() - dead));
      release_or_fail(*b, std::get<Granted>(*p).lease);
      break;
    }
    ::waitpid(holder, nullptr, 0);
  }
  const double longest = quantile(took, 1), bound = ms(ttl + tick);
  fmt::print(
      "holder killed (-9), {} runs: next grant after min {:.0f}, p50 {:.0f}, max {:.0f} ms; session timeout + tick is {:.0f} "
      "ms\n",
      took.size(), quantile(took, 0), quantile(took, 0.5), longest, bound);
  must(longest <= bound + 50, "the next grant within the session timeout and a tick");
}

// ---- dlock run -----------------------------------------------------------------------------------------------------------

void run_time() {
  const char* dlock = std::getenv("DLOCK");
  if (!dlock) return;
  ZookeeperServer server{{.tick = 2000ms}};
  std::vector<double> took;
  for (int i = 0; i < (full ? 100 : 10); ++i) {
    const Deadline began = Clock::now();
    const pid_t p = ::fork();
    if (p == 0) {
      const std::string url = server.url() + "/run";
      ::execl(dlock, "dlock", "run", "-b", url.c_str(), "--key", "k", "--", "true", nullptr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(p, &status, 0);
    took.push_back(ms(Clock::now() - began));
    must(status == 0, "dlock run -- true ends with 0");
  }
  const std::string connections = server.word("mntr");
  fmt::print("dlock run -- true, from start to exit: min {:.1f}, p50 {:.1f}, p99 {:.1f} ms over {} runs\n", quantile(took, 0),
             quantile(took, 0.5), quantile(took, 0.99), took.size());
}

// ---- a follower and its client cut off together -------------------------------------------------------------------------

int sh(const std::string& command) {
  std::fflush(stdout);
  return std::system(command.c_str());
}

struct Network {
  Network() {
    down();
    sh("ip link add brdlz type bridge && ip addr add 10.213.8.254/24 dev brdlz && ip link set brdlz up");
    for (int i = 1; i <= 3; ++i)
      sh(
          fmt::format("ip netns add dlz{0} && ip link add vdlz{0} type veth peer name eth0 netns dlz{0} && ip link set vdlz{0} "
                      "master brdlz up && "
                      "ip netns exec dlz{0} sh -c 'ip link set lo up; ip addr add 10.213.8.{0}/24 dev eth0; ip link set eth0 up'",
                      i));
  }
  ~Network() { down(); }
  static void down() { sh("for i in 1 2 3; do ip netns del dlz$i; done 2>/dev/null; ip link del brdlz 2>/dev/null; true"); }
  static void cable(std::size_t i, bool up) { sh(fmt::format("ip link set vdlz{} {}", i + 1, up ? "up" : "down")); }
};

// What a job is here: it notes every millisecond that it lives, and does not hear TERM.
[[noreturn]] void job(const char* file) {
  ::signal(SIGTERM, SIG_IGN);
  const int fd = ::open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (;;) {
    const std::int64_t t = nanos();
    if (::pwrite(fd, &t, sizeof t, 0) != sizeof t) ::_exit(1);
    ::usleep(1000);
  }
}

std::int64_t last_sign(const std::string& file) {
  std::int64_t t = 0;
  const Fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd || ::read(fd.get(), &t, sizeof t) != sizeof t) return 0;
  return t;
}

void cut(const char* self) {
  const char* dlock = std::getenv("DLOCK");
  if (!dlock || ::geteuid() != 0 || sh("ip netns list >/dev/null 2>&1") != 0) {
    fmt::print("cut: left out, it needs root and DLOCK\n");
    return;
  }
  const Network network;
  ZookeeperEnsemble::Setup setup;
  setup.tick = 500ms;
  for (std::size_t i = 0; i < 3; ++i) {
    setup.addresses[i] = fmt::format("10.213.8.{}", i + 1);
    setup.prefixes[i] = {"ip", "netns", "exec", fmt::format("dlz{}", i + 1)};
  }
  ZookeeperEnsemble ensemble{setup};
  const TestDirectory directory;
  std::vector<double> slacks;
  std::mt19937 random{static_cast<unsigned>(nanos())};
  const int runs = full ? 12 : 1;
  for (int i = 0; i < runs; ++i) {
    const std::size_t leader = ensemble.leader(), mine = ensemble.follower(), other = ensemble.follower(mine);
    const std::string sign = fmt::format("{}/sign{}", directory.path(), i), k = fmt::format("cut{}", i);
    const std::string ns = fmt::format("dlz{}", mine + 1), url = ensemble[mine].url() + "/cut";
    const pid_t holder = ::fork();
    if (holder == 0) {
      const int null = ::open("/dev/null", O_RDWR);
      ::dup2(null, 0);
      ::dup2(null, 2);
      ::execlp("ip", "ip", "netns", "exec", ns.c_str(), dlock, "run", "-b", url.c_str(), "--ttl", "4s", "--key", k.c_str(), "--",
               self, "--job", sign.c_str(), nullptr);
      ::_exit(127);
    }
    for (const Deadline end = Clock::now() + 20s; last_sign(sign) == 0 && Clock::now() < end;) ::usleep(5000);
    auto second = open_zookeeper(fmt::format("zookeeper://{},{}/cut", ensemble[leader].host(), ensemble[other].host()));
    const auto w = second->enqueue(request(key(k), 10s)).value();
    if (!std::holds_alternative<Waiting>(w->poll(Duration{500'000 + static_cast<long>(random() % 1'500'000)}).value()))
      throw std::runtime_error("the second client does not wait");
    Network::cable(mine, false);
    const std::int64_t cut_at = nanos();
    Lease lease{key(k), Owner{}};
    for (bool granted = false; !granted;) {
      const auto p = w->poll(20s);
      if (!p) throw std::runtime_error(p.error().message);
      if (const auto* g = std::get_if<Granted>(&*p)) lease = g->lease, granted = true;
    }
    const std::int64_t granted_at = nanos(), died_at = last_sign(sign);
    int status = 0;
    const bool ended = ::waitpid(holder, &status, WNOHANG) == holder;
    slacks.push_back(static_cast<double>(granted_at - died_at) / 1e6);
    fmt::print(
        "cut {}: the job's last sign {:+.0f} ms, the second grant {:+.0f} ms after the cut: slack {:.0f} ms; dlock had ended: "
        "{}{}\n",
        i + 1, static_cast<double>(died_at - cut_at) / 1e6, static_cast<double>(granted_at - cut_at) / 1e6, slacks.back(),
        ended ? "yes" : "no", ended && WIFEXITED(status) ? fmt::format(", status {}", WEXITSTATUS(status)) : "");
    std::fflush(stdout);
    must(slacks.back() > 0 && last_sign(sign) == died_at, "the job is dead before the second client is granted");
    release_or_fail(*second, lease);
    Network::cable(mine, true);
    if (!ended) ::waitpid(holder, &status, 0);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 123, "dlock ends with 123");
  }
  fmt::print(
      "follower and its client cut off together, {} runs, tick 500 ms, session 4 s: smallest slack {:.0f} ms, median {:.0f} ms\n",
      runs, quantile(slacks, 0), quantile(slacks, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view{argv[1]} == "--job") job(argv[2]);
  if (!zookeeper_installed()) return without_zookeeper();
  std::vector<std::string_view> parts;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--full") full = true;
    else parts.emplace_back(argv[i]);
  }
  const auto wanted = [&](std::string_view part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  try {
    if (wanted("rate")) rate();
    if (wanted("queue")) queue();
    if (wanted("relist")) relist();
    if (wanted("killed")) killed();
    if (wanted("run")) run_time();
    if (wanted("cut")) cut(argv[0]);
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}
