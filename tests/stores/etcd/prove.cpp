// SPDX-License-Identifier: Apache-2.0
// What recipe queue does on real servers under faults.
// etcd_prove [--full] [PART...]
//
// Parts: faults (grants while members are stopped, killed, cut off and late, judged by the checker
// of histories), leader (it is stopped for 15 s and
// goes on, with leases of 10 s and two jobs at the other members, under $DLOCK and under etcdctl
// lock: how long both run).
#include "support/prove.hpp"
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>
#include "stores/contention.hpp"
#include "support/etcd_server.hpp"
#include "support/proxy.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

Settings settings(Duration op_timeout) {
  Settings s;
  s.op_timeout = op_timeout;
  return s;
}

// ---- faults ------------------------------------------------------------------------------------

void faults() {
  constexpr Duration ttl = 4s;
  const long wanted = full ? 250 : 200;  // grants
  const unsigned seed = std::random_device{}();
  EtcdServer cluster{{.members = 3, .durable = false, .flags = {}}};
  std::vector<std::unique_ptr<Proxy>> proxies;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string host = cluster.host(i);
    proxies.push_back(std::make_unique<Proxy>(
        static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1)))));
  }
  Contention clients{{.open =
                          [&](unsigned n) {
                            std::string url = "etcd://";
                            for (std::size_t i = 0; i < 3; ++i)
                              url += fmt::format("{}127.0.0.1:{}", i == 0 ? "" : ",",
                                                 proxies[(i + n) % 3]->port());
                            return open_etcd(url, settings(ttl / 6));
                          },
                      .clients = 18,
                      .keys = 6,
                      .ttl = ttl,
                      .seed = seed}};
  std::mt19937 random(seed);
  std::map<std::string, int> done;
  const Deadline began = Clock::now(), end = began + (full ? 1500s : 60s);
  while (!clients.had_enough(wanted, wanted, end)) {
    ::usleep(1500000);
    const std::size_t leader = cluster.leader(), follower = cluster.follower(),
                      which = random() % 2 == 0 ? leader : follower;
    const char* name = which == leader ? "leader" : "follower";
    const auto hurt = [&](const char* what) {
      ++done[fmt::format("{} {}", what, name)];
      std::this_thread::sleep_for(std::chrono::milliseconds{200 + random() % 7000});
    };
    switch (random() % 4) {
      case 0:
        cluster.freeze(which);
        hurt("stopped");
        cluster.thaw(which);
        break;
      case 1:
        cluster.kill(which);
        hurt("killed");
        cluster.start(which);
        break;
      case 2:
        proxies[which]->refuse(true);
        proxies[which]->cut();
        hurt("cut");
        proxies[which]->refuse(false);
        break;
      default:
        proxies[which]->hold(random() % 2 == 0 ? "/v3/kv/txn" : "/v3/lease/");
        hurt("late");
        proxies[which]->let_go();
    }
    cluster.wait_ready();
  }
  const std::string violations = clients.violations();
  fmt::print("faults, seed {}: {} grants in {:.0f} s, {} lost, {} of them early;", seed,
             clients.grants(), seconds(Clock::now() - began), clients.lost, clients.early);
  for (const auto& [what, n] : done) fmt::print(" {} {}", n, what);
  fmt::print("\n");
  must(violations.empty(), violations);
  must(clients.early == 0, "no lease is lost before its deadline");
  must(clients.grants() >= wanted, "grants");
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
  if (const char* program = missing_etcd()) return without(program);
  return run_parts(argc, argv, {{"leader", leader}, {"faults", faults}});
}
