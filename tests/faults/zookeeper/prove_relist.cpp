// SPDX-License-Identifier: Apache-2.0
// Processes are killed on a slow network.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <random>
#include "prove.hpp"
#include "support/proxy.hpp"
#include "zookeeper/session/session_backend.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {
namespace {

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
      int none = 0;
      if (!s.holder.compare_exchange_strong(none, ::getpid())) ++s.overlaps;
      if (s.last.exchange(l.token) >= l.token) ++s.inversions;
      ++s.grants;
      ::usleep(static_cast<unsigned>(random() % 4000));
      int me = ::getpid();
      s.holder.compare_exchange_strong(me, 0);
      const auto r = backend->release(l);
      if (!r) (void)backend->release(l);
      auto& base = dynamic_cast<zookeeper::SessionBackend&>(*backend);
      s.relists += static_cast<long>(std::exchange(base.relists, 0));
    }
  } catch (const std::exception& e) {
    ++s.errors;
    fmt::print("contender: {}\n", e.what());
    std::fflush(stdout);
  }
  ::_exit(0);
}

}  // namespace

void relist() {
  ZookeeperServer server{{.durable = false}};
  Proxy slow{server.port()};
  slow.delay(Proxy::to_client,
             // a round trip lies between the reply to the list and the watch: the time in which the
             // predecessor may vanish
             4ms);
  slow.delay(Proxy::to_server, 4ms);
  auto* s = static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  constexpr std::size_t n = 3;  // few, so that a newcomer's predecessor is often about to go
  const std::string fast = server.url() + "/r",
                    far = fmt::format("zookeeper://127.0.0.1:{}/r", slow.port());
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
      "3 processes, one of them 8 ms away, 1 s sessions: {} grants, {} kills ({} of the holder), "
      "{} lists again because the "
      "predecessor had gone, {} overlaps, {} "
      "tokens out of order, {} waiters lost, longest gap without a grant {:.0f} ms, the last one "
      "done {:.0f} ms after the end\n",
      s->grants.load(), kills, holders, s->relists.load(), s->overlaps.load(), s->inversions.load(),
      s->errors.load(), worst, ms(Clock::now() - stopped));
  must(s->overlaps == 0 && s->inversions == 0, "one at a time, tokens rising");
  must(s->errors == 0, "no waiter is lost");
  must(!full || s->relists > 0, "the race was met");
}

}  // namespace dlock::prove
