// SPDX-License-Identifier: Apache-2.0
// Figures of recipe `fair` on a real server, and the promises that are counts. redis_prove [--full [harness]]
//
// Counts are the server's own (INFO commandstats) and are asserted. Times are printed, and compared with what redis-benchmark does with the same scripts
// on the same server in the same run.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include "redis/fair_keys.hpp"
#include "redis/fair_recipe.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "support/redis_client.hpp"

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

std::uint64_t calls(RedisServer& server, std::string_view command) {
  const std::string text = info_field(server, "commandstats", fmt::format("cmdstat_{}", command));
  return text.starts_with("calls=") ? std::stoull(text.substr(6)) : 0;
}

struct Counts {
  std::uint64_t evalsha, eval, blpop;
  explicit Counts(RedisServer& s) : evalsha(calls(s, "evalsha")), eval(calls(s, "eval")), blpop(calls(s, "blpop")) {}
  std::uint64_t since(const Counts& before) const { return evalsha + eval + blpop - before.evalsha - before.eval - before.blpop; }
};

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

template <class T>
T quantile(std::vector<T> v, double q) {
  if (v.empty()) return {};
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

double rtt_us(RedisServer& server, int n) {
  std::vector<double> took;
  auto c = redis::Connection::open({"127.0.0.1", server.port(), {}}, nullptr, 5s, {Clock::now() + 5s});
  for (int i = 0; i < n; ++i) {
    const auto t = Clock::now();
    (*c)->add({"PING"});
    (void)(*c)->flush({t + 5s});
    (void)(*c)->receive({t + 5s});
    took.push_back(seconds(Clock::now() - t) * 1e6);
  }
  return quantile(took, 0.5);
}

std::unique_ptr<Backend> client(RedisServer& server) { return open_redis(server.url() + "?restart_grace=0"); }

// What redis-benchmark reaches with one connection, requests per second.
double benchmark(RedisServer& server, const redis::Script& script, const std::vector<std::string>& keys,
                 const std::vector<std::string>& args, long n) {
  std::string command = fmt::format("redis-benchmark -h 127.0.0.1 -p {} -c 1 -n {} -r 1000000000 --csv EVALSHA {} {}",
                                    server.port(), n, script.sha, keys.size());
  for (const auto& list : {keys, args})
    for (const auto& word : list) command += " '" + word + "'";
  std::FILE* out = ::popen((command + " 2>/dev/null").c_str(), "re");
  char line[4096];
  double rate = 0;
  while (out && std::fgets(line, sizeof line, out))
    if (const char* comma = std::strstr(line, "\",\"")) rate = std::max(rate, std::atof(comma + 3));
  if (out) ::pclose(out);
  return rate;
}

void uncontended(RedisServer& server, long n) {
  auto backend = client(server);
  const Key k = *Key::parse("uncontended");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const Counts before{server};
  for (long i = 0; i < n; ++i) release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const Counts after{server};
  must(after.since(before) == static_cast<std::uint64_t>(2 * n), "one command to acquire, one to release");
  fmt::print("uncontended: {:.3f} commands per acquire and release (by the server's count)\n",
             static_cast<double>(after.since(before)) / static_cast<double>(n));

  // The same keys each time for us; fresh keys for redis-benchmark, so that every one of its acquires is granted, too. Its releases find nothing to
  // release, which is less work.
  const std::string r = "__rand_int__";
  std::vector<std::string> keys = redis::FairKeys{"bench:", r}.all();
  keys.push_back("bench:{" + r + "}:wake:x");
  const Request example = request(k);
  const std::string meta = example.identity.encode();
  double ours = 0, theirs = 0;
  for (int round = 0; round < 3; ++round) {  // the best of three each, interleaved: the machine is not ours alone
    const auto began = Clock::now();
    for (long i = 0; i < n; ++i) release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    ours = std::max(ours, static_cast<double>(n) / seconds(Clock::now() - began));
    const double a = benchmark(server, redis::scripts::acquire, keys,
                               {example.owner.hex(), "X", "4294967295", "10000000", "0", "3333333", "2000000", meta, "", "1"}, n);
    const double b =
        benchmark(server, redis::scripts::release, {keys.begin(), keys.begin() + 6}, {example.owner.hex(), "2000000"}, n);
    if (a > 0 && b > 0) theirs = std::max(theirs, 1 / (1 / a + 1 / b));
    server.command({"FLUSHDB"});
  }
  fmt::print(
      "loop of acquire and release on one connection: {:.0f}/s; redis-benchmark -c 1, the same scripts: {:.0f}/s; ratio {:.2f}; "
      "PING {:.0f} us\n",
      ours, theirs, theirs > 0 ? ours / theirs : 0, rtt_us(server, 2000));
}

// How many grants `dlock bench` counts in a second with one client, in a program of its own.
double bench(RedisServer& server, int seconds) {
  const std::string command =
      fmt::format("{} bench -q -b '{}?restart_grace=0' -c 1 -d {}s --scenario uncontended --output csv 2>/dev/null", DLOCK,
                  server.url(), seconds);
  std::FILE* out = ::popen(command.c_str(), "re");
  char line[4096];
  double rate = 0;
  while (out && std::fgets(line, sizeof line, out))
    if (std::strncmp(line, "redis,fair,uncontended,", 23) == 0) {
      const char* at = line;  // backend,recipe,scenario,clients,seconds,grants,grants_per_s
      for (int comma = 0; comma < 6 && at; ++comma) at = std::strchr(at, ',') + 1;
      rate = std::atof(at);
    }
  if (out) ::pclose(out);
  return rate;
}

// What the harness of `dlock bench` costs: the same work in its threads, with its ledger and histograms, and in a plain loop, by turns.
void harness(RedisServer& server, bool full) {
  auto backend = client(server);
  const Key k = *Key::parse("harness");
  std::vector<double> ratios, plain, benched;
  for (int round = 0; round < (full ? 9 : 3); ++round) {
    const auto began = Clock::now();
    long n = 0;
    for (; Clock::now() < began + (full ? 2s : 1s); ++n) release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    plain.push_back(static_cast<double>(n) / seconds(Clock::now() - began));
    benched.push_back(bench(server, full ? 2 : 1));
    ratios.push_back(benched.back() / plain.back());
  }
  fmt::print("plain loop {:.0f}/s, dlock bench uncontended {:.0f}/s: ratio {:.3f} (medians of {} turns)\n", quantile(plain, 0.5),
             quantile(benched, 0.5), quantile(ratios, 0.5), ratios.size());
  must(quantile(benched, 0.5) > 0, "dlock bench measures");
  if (full) must(quantile(ratios, 0.5) >= 0.9, "dlock bench reaches 0.9 of the plain loop");
}

struct Contended {
  double per_grant, with_release, p50_us, p99_us;
};

// `n` clients that take and release at once, over and over; all wait in one queue.
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
    const auto p = waiters[i]->poll(2ms);  // long enough to fall asleep; a slice of zero would cost one more command
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
  std::vector<double> round_trips;  // of somebody else, who sleeps in between as the waiters do
  std::atomic<bool> over{false};
  std::thread pinging{[&] {
    auto c = redis::Connection::open({"127.0.0.1", server.port(), {}}, nullptr, 5s, {Clock::now() + 5s});
    while (!over) {
      const auto t = Clock::now();
      (*c)->add({"PING"});
      (void)(*c)->flush({t + 5s});
      (void)(*c)->receive({t + 5s});
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
  if (measure_fifo) must(std::is_sorted(order.begin(), order.end()), fmt::format("first come, first served at {} waiters", n));
  const double releases = granted;
  Contended c{(commands - releases) / granted, commands / granted, quantile(hand_offs, 0.5), quantile(hand_offs, 0.99)};
  if (!measure_fifo)
    fmt::print(
        "contended, {} waiters: {:.3f} commands per grant, {:.3f} with its release; {:.0f} grants/s; hand-off p50 {:.0f} us, p99 "
        "{:.0f} us, "
        "PING meanwhile p50 {:.0f} us: {:.1f} round trips\n",
        n, c.per_grant, c.with_release, granted / took, c.p50_us, c.p99_us, quantile(round_trips, 0.5),
        c.p50_us / quantile(round_trips, 0.5));
  else fmt::print("in order of arrival, {} waiters: {}\n", n, std::is_sorted(order.begin(), order.end()) ? "yes" : "NO");
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
    leases.push_back(acquire_or_fail(*backend, request(*Key::parse(fmt::format("some-job-{:06}", i)), 600s)));
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
  must(p && std::holds_alternative<Granted>(*p) && took <= period, "a dead head costs at most one liveness period");
  fmt::print("dead head of the queue: {:.0f} ms (liveness period {} ms)\n", seconds(took) * 1e3, period / 1ms);
}

// From the start of a process to its end.
double run_ms(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const auto began = Clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error(fmt::format("{}: status {}", words[0], status));
  return seconds(Clock::now() - began) * 1e3;
}

long pss_of(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/smaps_rollup", pid);
  long kib = 0;
  if (std::FILE* f = std::fopen(path.c_str(), "re")) {
    char line[256];
    while (std::fgets(line, sizeof line, f))
      if (std::sscanf(line, "Pss: %ld", &kib) == 1) break;
    std::fclose(f);
  }
  return kib;
}

// Of a process and its descendants that run the same program (dlock and its guard), while `words` wait for something.
long pss_kib(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::usleep(700'000);  // it has what it needs, and waits
  const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid));
  long sum = pss_of(pid);
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    const pid_t other = std::atoi(entry.path().filename().c_str());
    std::error_code gone;
    if (other <= 0 || other == pid || std::filesystem::read_symlink(entry.path() / "exe", gone) != program) continue;
    std::FILE* f = std::fopen((entry.path() / "stat").c_str(), "re");
    int parent = 0;
    if (f && std::fscanf(f, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == pid) sum += pss_of(other);
    if (f) std::fclose(f);
  }
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
  return sum;
}

// `dlock run` as a process, beside what else one would start: redis-cli PING, and etcdctl lock on an etcd of its own.
void processes(RedisServer& server, int n) {
  const std::string port = std::to_string(server.port()), url = server.url() + "?restart_grace=0";
  std::vector<std::pair<std::string, std::vector<std::string>>> programs{
      {"redis-cli PING", {"redis-cli", "-p", port, "PING"}},
      {"dlock run -- true", {DLOCK, "run", "-q", "-b", url, "--key", "start", "--", "true"}}};
  std::vector<std::pair<std::string, std::vector<std::string>>> waiting{
      {"redis-cli PING", {"redis-cli", "-p", port, "BLPOP", "nothing", "5"}},
      {"dlock run -- true", {DLOCK, "run", "-q", "-b", url, "--key", "memory", "--", "sleep", "5"}}};
  TestDirectory directory;
  pid_t etcd = -1;
  if (installed("etcd") && installed("etcdctl")) {
    const std::string client = fmt::format("http://127.0.0.1:{}", free_port()),
                      peer = fmt::format("http://127.0.0.1:{}", free_port());
    etcd = ::fork();
    if (etcd == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int null = ::open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
      ::execlp("etcd", "etcd", "--data-dir", directory.path().c_str(), "--listen-client-urls", client.c_str(),
               "--advertise-client-urls", client.c_str(), "--listen-peer-urls", peer.c_str(), "--initial-advertise-peer-urls",
               peer.c_str(), "--initial-cluster", ("default=" + peer).c_str(), nullptr);
      ::_exit(127);
    }
    ::setenv("ETCDCTL_API", "3", 1);
    programs.push_back({"etcdctl lock -- true", {"etcdctl", "--endpoints", client, "lock", "start", "true"}});
    waiting.push_back({"etcdctl lock -- true", {"etcdctl", "--endpoints", client, "lock", "memory", "sleep", "5"}});
    for (int i = 0; i < 100; ++i) try {
        run_ms(programs.back().second);
        break;
      } catch (const std::exception&) { ::usleep(100'000); }
  } else {
    fmt::print("etcdctl lock: not tested (etcd is not installed)\n");
  }
  std::map<std::string, std::vector<double>> took;
  for (int i = 0; i < n; ++i)
    for (const auto& [name, words] : programs) took[name].push_back(run_ms(words));
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& all = took[programs[i].first];
    fmt::print("process {}: {:.2f} ms (p50 of {}), PSS {} KiB\n", programs[i].first, quantile(all, 0.5), n,
               pss_kib(waiting[i].second));
  }
  if (etcd > 0) {
    ::kill(etcd, SIGKILL);
    ::waitpid(etcd, nullptr, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* program : {"redis-server", "redis-benchmark"})
    if (!installed(program)) return without(program);
  const bool full = argc > 1 && std::string_view{argv[1]} == "--full";
  const bool harness_only = argc > 2 && std::string_view{argv[2]} == "harness";
  try {
    RedisServer server{{.config = {"maxclients 4000"}}};
    if (harness_only) return harness(server, full), failed ? 1 : 0;
    uncontended(server, full ? 50'000 : 2'000);
    harness(server, full);
    contended(server, 8, 8, true);
    contended(server, 500, 500, true);
    const Contended few = contended(server, 8, full ? 20'000 : 1'000, false),
                    many = contended(server, 500, full ? 20'000 : 2'000, false);
    must(few.per_grant <= 3.05 && many.per_grant <= 3.05,
         "3 commands per grant (and now and then one by which a waiter shows that it is alive)");
    must(many.per_grant < few.per_grant * 1.1 && few.per_grant < many.per_grant * 1.1,
         "as many at 500 waiters as at 8, within 10 %");
    memory(server, full ? 20'000 : 2'000, full ? 5'000 : 500);
    dead_head(server);
    processes(server, full ? 300 : 10);
    fmt::print("PING round trip: p50 {:.0f} us\n", rtt_us(server, 2000));
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}
