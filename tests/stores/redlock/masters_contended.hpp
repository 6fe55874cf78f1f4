// SPDX-License-Identifier: Apache-2.0
// Six clients behind proxies contend while masters are cut off, frozen, killed and made to lose
// replies.
#pragma once
#include <unistd.h>
#include <random>
#include <string>
#include "stores/contention.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::test {

struct Contended {
  long grants = 0, faults = 0, errors = 0, lost = 0;
  std::string violations;
};

// Runs until there were so many grants; at most `bound`. At most two of five masters suffer a fault
// that takes them away at the same time.
inline Contended contend(long grants, Duration bound, unsigned seed) {
  using namespace std::chrono_literals;
  RedlockMasters m{
      {.config = {"appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0"},
       .proxied = true}};
  Settings settings;
  settings.op_timeout = settings.connect_timeout = 300ms;
  Contention clients{{.open = [&](unsigned) { return open_redlock(m.proxied_url(), settings); },
                      .ttl = 2s,
                      .seed = seed}};
  Contended c;
  std::minstd_rand random{seed};
  const Deadline end = later(Clock::now(), bound);
  while (clients.grants() < grants && Clock::now() < end) {
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
  c.violations = clients.violations();
  c.grants = clients.grants(), c.errors = clients.errors, c.lost = clients.lost;
  return c;
}

}  // namespace dlock::test
