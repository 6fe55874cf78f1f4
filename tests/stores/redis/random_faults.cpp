// SPDX-License-Identifier: Apache-2.0
// Contenders behind proxies while connections are cut, replies lost, scripts forgotten and the
// server frozen: no two hold at the same time, tokens rise, and in the end nothing is left.
#include <cstdlib>
#include <random>
#include "faults.hpp"
#include "stores/contention.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("contenders under random faults never overlap") {
  const unsigned seed = Catch::rngSeed();
  const auto length = std::getenv("DLOCK_TEST_FAULT_SECONDS")
                          ? std::chrono::seconds{std::atoi(std::getenv("DLOCK_TEST_FAULT_SECONDS"))}
                          : 8s;
  RedisServer server;
  std::vector<std::unique_ptr<Proxy>> proxies;
  for (int i = 0; i < 6; ++i) proxies.push_back(std::make_unique<Proxy>(server.port()));
  Contention clients{{.open =
                          [&](unsigned n) {
                            return open_redis(fmt::format("redis://127.0.0.1:{}?restart_grace=0",
                                                          proxies[n]->port()),
                                              quick(150ms, 300ms));
                          },
                      .ttl = 1500ms,
                      .seed = seed}};
  std::minstd_rand random{seed};
  int faults = 0;
  for (const Deadline end = Clock::now() + length; Clock::now() < end;
       ::usleep(static_cast<useconds_t>(10'000 + random() % 60'000))) {
    Proxy& proxy = *proxies[random() % proxies.size()];
    ++faults;
    switch (random() % 8) {
      case 0: proxy.cut(); break;
      case 1: proxy.lose_reply("EVALSHA"); break;
      case 2: proxy.lose_reply("EVALSHA", true); break;
      case 3: proxy.lose_reply("BLPOP"); break;
      case 4: server.command({"SCRIPT", "FLUSH"}); break;
      case 5: disconnect_all(server); break;
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
  CAPTURE(seed);
  CHECK(clients.violations() == "");
  CHECK(clients.grants() > 50);
  CHECK(clients.errors > 0);  // the faults had an effect
  // After the faults the next contender is granted within a ttl, and only the fence remains.
  auto last = open_redis(server.url() + "?restart_grace=0");
  auto waiter = *last->enqueue(request(key("contended0")));
  CHECK(last->release(granted_within(*waiter, 10s)) == Released::yes);
  CHECK(holders_of(*last, key("contended0")) == 0);
  WARN(clients.grants() << " grants, " << faults << " faults, " << clients.errors << " errors, "
                        << clients.lost << " leases lost, seed " << seed);
}
