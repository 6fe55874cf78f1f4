// SPDX-License-Identifier: Apache-2.0
// A follower and its client are cut off together: the follower goes on answering pings, and only a committed write would be proof.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include "prove.hpp"
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {
namespace {

int sh(const std::string& command) {
  std::fflush(stdout);
  return std::system(command.c_str());
}

// Of one run at a time on a machine, so that the next one can clean up what a killed one left.
struct Network {
  Network() : turn(::open("/tmp/dlock-test-network", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    for (const Deadline end = later(Clock::now(), 100s); ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0; ::usleep(50'000))
      if (Clock::now() >= end) throw std::runtime_error("another run has the network");
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
  const Fd turn;
  static void cable(std::size_t i, bool up) { sh(fmt::format("ip link set vdlz{} {}", i + 1, up ? "up" : "down")); }
};

std::int64_t last_sign(const std::string& file) {
  std::int64_t t = 0;
  const Fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd || ::read(fd.get(), &t, sizeof t) != sizeof t) return 0;
  return t;
}

}  // namespace

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

}  // namespace dlock::prove
