// SPDX-License-Identifier: Apache-2.0
// Contenders behind proxies while connections are cut, replies lost, scripts forgotten and the
// server frozen: no two hold at the same time, tokens rise, and in the end nothing is left.
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

struct Window {
  // from the return of the grant to the call of release, or to its own deadline
  Deadline from, until;
  FencingToken token;
};

struct History {
  std::mutex mutex;
  std::vector<Window> windows;
  std::atomic<long> errors{0}, lost{0};
};

void contend(const std::string& url, const Key& k, unsigned seed, const std::atomic<bool>& stop,
             History& history) {
  std::minstd_rand random{seed};
  const Duration ttl = 1500ms;
  auto backend = open_redis(url, quick(150ms, 300ms));
  while (!stop) {
    auto waiter = *backend->enqueue(request(k, ttl));
    const Deadline give_up = Clock::now() + 4s;
    std::optional<Lease> lease;
    while (!lease && Clock::now() < give_up && !stop) {
      const auto p = waiter->poll(Duration{20'000 + random() % 400'000});
      if (!p) {
        ++history.errors;
        ::usleep(10'000);
      } else if (std::holds_alternative<Granted>(*p)) {
        lease = std::get<Granted>(*p).lease;
      }
    }
    if (!lease) {
      for (int i = 0; i < 20 && !waiter->cancel(); ++i) ::usleep(20'000);
      continue;
    }
    Window w{Clock::now(), lease->deadline, lease->token};
    if (w.from >= lease->deadline) {  // expired on arrival: not a grant
      (void)backend->release(*lease);
      continue;
    }
    for (unsigned i = random() % 4; i > 0; --i) {
      ::usleep(static_cast<useconds_t>(random() % 30'000));
      if (Clock::now() >= lease->deadline) break;
      const auto renewal = backend->renew(*lease, ttl);
      if (renewal && std::holds_alternative<Lost>(*renewal)) {
        ++history.lost;
        break;
      }
      if (renewal) lease = std::get<Kept>(*renewal).lease;
    }
    w.until = std::min(Clock::now(), lease->deadline);
    {
      const std::lock_guard lock{history.mutex};
      history.windows.push_back(w);
    }
    for (int i = 0; i < 20 && !backend->release(*lease); ++i) ::usleep(10'000);
  }
}

}  // namespace

TEST_CASE("contenders under random faults never overlap") {
  const unsigned seed = Catch::rngSeed();
  const auto length = std::getenv("DLOCK_TEST_FAULT_SECONDS")
                          ? std::chrono::seconds{std::atoi(std::getenv("DLOCK_TEST_FAULT_SECONDS"))}
                          : 8s;
  RedisServer server;
  constexpr unsigned clients = 6;
  std::vector<std::unique_ptr<Proxy>> proxies;
  History history;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  const Key k = key("random");
  for (unsigned i = 0; i < clients; ++i) {
    proxies.push_back(std::make_unique<Proxy>(server.port()));
    threads.emplace_back(contend,
                         fmt::format("redis://127.0.0.1:{}?restart_grace=0", proxies[i]->port()), k,
                         seed * 100 + i, std::cref(stop), std::ref(history));
  }
  std::minstd_rand random{seed};
  std::map<int, int> injected;
  for (const Deadline end = Clock::now() + length; Clock::now() < end;
       ::usleep(static_cast<useconds_t>(10'000 + random() % 60'000))) {
    Proxy& proxy = *proxies[random() % clients];
    const int fault = static_cast<int>(random() % 8);
    ++injected[fault];
    switch (fault) {
      case 0: proxy.cut(); break;
      case 1: proxy.lose_reply("EVALSHA"); break;
      case 2: proxy.lose_reply("EVALSHA", true); break;
      case 3: proxy.lose_reply("BLPOP"); break;
      case 4: server.command({"SCRIPT", "FLUSH"}); break;
      case 5: server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}); break;
      case 6:
        proxy.stall(Proxy::to_client, true);
        ::usleep(static_cast<useconds_t>(random() % 300'000));
        proxy.stall(Proxy::to_client, false);
        break;
      default:
        server.freeze();
        ::usleep(static_cast<useconds_t>(random() % 200'000));
        server.thaw();
        break;
    }
  }
  stop = true;
  for (auto& t : threads) t.join();

  auto& windows = history.windows;
  std::sort(windows.begin(), windows.end(),
            [](const Window& a, const Window& b) { return a.from < b.from; });
  for (std::size_t i = 1; i < windows.size(); ++i) {
    CAPTURE(seed, i, windows[i - 1].token, windows[i].token,
            (windows[i - 1].until - windows[i].from) / 1us);
    CHECK(windows[i - 1].until <= windows[i].from);
    CHECK(windows[i - 1].token < windows[i].token);
  }
  CHECK(windows.size() > 50);
  CHECK(history.errors > 0);  // the faults had an effect
  // After the faults the next contender is granted within a ttl, and only the fence remains.
  auto last = open_redis(server.url() + "?restart_grace=0");
  auto waiter = *last->enqueue(request(k));
  const Lease lease = granted_within(*waiter, 10s);
  CHECK(last->release(lease) == Released::yes);
  CHECK(holders_of(*last, k) == 0);
  int faults = 0;
  for (const auto& [kind, n] : injected) faults += n;
  WARN(windows.size() << " grants, " << faults << " faults, " << history.errors << " errors, "
                      << history.lost << " leases lost, seed " << seed);
}
