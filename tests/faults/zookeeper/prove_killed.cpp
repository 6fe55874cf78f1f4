// SPDX-License-Identifier: Apache-2.0
// A killed holder.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include "prove.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {

void killed() {
  constexpr Duration tick = 200ms, ttl = 2s;
  ZookeeperServer server{{.tick = tick}};
  for (int i = 0; i < (full ? 20 : 2); ++i) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    const std::string url = server.url() + "/killed";
    const pid_t holder = ::fork();
    if (holder == 0) {
      auto b = open_zookeeper(url);
      const Lease l = acquire_or_fail(*b, request(key("k"), ttl));
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
      must(ms(Clock::now() - dead) <= ms(ttl + tick) + 50,
           "the next grant within the session timeout and a tick");
      release_or_fail(*b, std::get<Granted>(*p).lease);
      break;
    }
    ::waitpid(holder, nullptr, 0);
  }
}

}  // namespace dlock::prove
