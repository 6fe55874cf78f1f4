// SPDX-License-Identifier: Apache-2.0
// Six clients behind proxies contend while masters are cut off, frozen, killed and made to lose
// replies; and what must be true of the result.
#pragma once
#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include "support/redlock_masters.hpp"

namespace dlock::test {

struct Contention {
  struct Window {
    // asked; from the return of the grant to the call of release, or to its deadline
    Deadline began, from, until;
    FencingToken token;
  };
  std::vector<Window> windows;
  long errors = 0, lost = 0, faults = 0, overlaps = 0, inversions = 0, duplicates = 0;
};

// Runs until there were so many grants; at most `bound`. At most two of five masters suffer a fault
// that takes them away at the same time.
inline Contention contend(long grants, Duration bound, unsigned seed) {
  using namespace std::chrono_literals;
  RedlockMasters m{
      {.config = {"appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0"},
       .proxied = true}};
  Contention c;
  std::mutex mutex;
  std::atomic<bool> stop{false};
  std::atomic<long> done{0}, errors{0}, lost{0};
  std::vector<std::thread> threads;
  const Duration ttl = 2s;
  for (unsigned n = 0; n < 6; ++n)
    threads.emplace_back([&, n] {
      std::minstd_rand random{seed * 10 + n};
      Settings settings;
      settings.op_timeout = 300ms;
      settings.connect_timeout = 300ms;
      auto backend = open_redlock(m.proxied_url(), settings);
      while (!stop) {
        const Deadline began = Clock::now();
        auto waiter = *backend->enqueue(request(*Key::parse("contended"), ttl));
        std::optional<Lease> lease;
        while (!lease && !stop) {
          const auto p = waiter->poll(Duration{20'000 + static_cast<long>(random() % 200'000)});
          if (!p) ++errors, ::usleep(2000);
          else if (std::holds_alternative<Granted>(*p)) lease = std::get<Granted>(*p).lease;
        }
        if (!lease) {
          (void)waiter->cancel();
          break;
        }
        Contention::Window w{began, Clock::now(), {}, lease->token};
        if (random() % 8 == 0) {
          ::usleep(static_cast<useconds_t>(random() % 3000));
          const auto renewal = backend->renew(*lease, ttl);
          if (renewal && std::holds_alternative<Lost>(*renewal)) ++lost;
          if (renewal && std::holds_alternative<Kept>(*renewal))
            lease = std::get<Kept>(*renewal).lease;
        }
        w.until = std::min(Clock::now(), lease->deadline);
        if (w.from < w.until) {
          const std::lock_guard lock{mutex};
          c.windows.push_back(w);
        }
        ++done;
        if (!backend->release(*lease)) ++errors, (void)backend->release(*lease);
      }
    });

  std::minstd_rand random{seed};
  const Deadline end = later(Clock::now(), bound);
  while (done < grants && Clock::now() < end) {
    // One or two masters at a time; the others answer.
    const std::size_t first = random() % 5, second = (first + 1 + random() % 4) % 5;
    const auto kind = random() % 6;
    const auto pause = static_cast<useconds_t>(5'000 + random() % 60'000);
    for (const std::size_t i : {first, second}) {
      if (i == second && random() % 2 == 0) continue;
      ++c.faults;
      switch (kind) {
        case 0: m.proxies[i]->cut(); break;
        case 1: m.proxies[i]->lose_reply("EVALSHA"); break;
        case 2: m.proxies[i]->lose_reply("EVALSHA", true); break;
        case 3: m.servers[i]->command({"SCRIPT", "FLUSH"}); break;
        case 4:
          m.servers[i]->freeze();
          ::usleep(pause);
          m.servers[i]->thaw();
          break;
        default:
          m.servers[i]->kill();
          ::usleep(pause);
          m.servers[i]->start();  // with its data
          break;
      }
    }
    ::usleep(pause);
  }
  stop = true;
  for (auto& t : threads) t.join();
  c.errors = errors;
  c.lost = lost;

  auto& w = c.windows;
  std::sort(w.begin(), w.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  for (std::size_t i = 1; i < w.size(); ++i) {
    c.overlaps += w[i - 1].until > w[i].from;
    c.inversions += w[i - 1].token > w[i].token;
    c.duplicates += w[i - 1].token == w[i].token;
  }
  return c;
}

}  // namespace dlock::test
