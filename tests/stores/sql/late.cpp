// SPDX-License-Identifier: Apache-2.0
// Recipe lease: an answer that is late.
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a reading that arrives long after a wait starts no long lease") {
  Db db{server()};
  Proxy proxy{server().port()};
  const auto other = open_recipe(db.url(), calm()),
             late = open_recipe(through(proxy, db), quick(5s));
  warm_up(*other, 1);
  const Lease first = acquire_or_fail(*other, request(key("k"), 30s));
  auto w = waiter(*late, request(key("k"), 8s));
  REQUIRE(waits(*w, 20ms));
  auto polled = std::async(std::launch::async, [&] { return granted_within(*w, 60s); });
  REQUIRE(becomes([&] { return one_sleeps(db); }));
  ::usleep(300'000);  // so that the lease would show if it counted from before the wait
  proxy.stall(Proxy::to_client, true);  // the answer to the wait comes late
  const Deadline held = Clock::now();
  release_or_fail(*other, first);
  const Deadline free_at = Clock::now();
  ::usleep(4'000'000);
  proxy.stall(Proxy::to_client, false);
  const Lease lease = polled.get();
  // no longer than the server's record, and that began when the key was read
  const Duration rest = recorded_rest_of_k(db);
  CHECK(lease.deadline <= later(Clock::now(), rest));
  CHECK(lease.deadline <= lease_end(free_at + 3s, 8s));
  CHECK(lease.deadline >= lease_end(held - 150ms, 8s));  // nor does it count from before the wait
}
