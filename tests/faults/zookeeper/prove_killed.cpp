// SPDX-License-Identifier: Apache-2.0
// A killed holder; and the time of a whole dlock run.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include "prove.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {

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
      "holder killed (-9), {} runs: next grant after min {:.0f}, p50 {:.0f}, max {:.0f} ms; "
      "session timeout + tick is {:.0f} "
      "ms\n",
      took.size(), quantile(took, 0), quantile(took, 0.5), longest, bound);
  must(longest <= bound + 50, "the next grant within the session timeout and a tick");
}

// ---- dlock run ---------------------------------------------------------------------------------

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
  fmt::print(
      "dlock run -- true, from start to exit: min {:.1f}, p50 {:.1f}, p99 {:.1f} ms over {} runs\n",
      quantile(took, 0), quantile(took, 0.5), quantile(took, 0.99), took.size());
}

}  // namespace dlock::prove
