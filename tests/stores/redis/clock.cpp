// SPDX-License-Identifier: Apache-2.0
// The server's wall clock jumps. Exclusion is not promised then; rising tokens and a message to the
// user are.
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("the server's clock jumps an hour ahead: the lease is lost, the next token is higher") {
  RedisServer server{{.movable_clock = true}};
  auto one = open_redis(server.url() + "?restart_grace=0"),
       two = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("ahead");
  const Lease first = acquire_or_fail(*one, request(k, 30s));
  server.step_clock(1h);
  // overlap: this is the stated weakness
  const Lease second = acquire_or_fail(*two, request(k, 30s));
  CHECK(second.token > first.token);
  CHECK(lost(one->renew(first, 30s)));
  server.step_clock(-1h);
  CHECK(two->release(second) == Released::yes);
  // though the clock is behind the last grant
  CHECK(acquire_or_fail(*one, request(k, 30s)).token > second.token);
}

TEST_CASE(
    "the server's clock jumps an hour back: the lease does not end, inspect says why, a forced "
    "release ends it") {
  RedisServer server{{.movable_clock = true}};
  auto one = open_redis(server.url() + "?restart_grace=0"),
       two = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("back");
  const Lease first = acquire_or_fail(*one, request(k, 30s));
  server.step_clock(-1h);
  const auto view = **two->inspect(k);
  REQUIRE(view.holders.size() == 1);
  CHECK(*view.holders[0].remaining > 50min);
  REQUIRE(view.notes.size() == 1);
  CHECK(view.notes[0].find("clock went back") != std::string::npos);
  CHECK(two->force_release(k, first.token) == Released::yes);
  CHECK(acquire_or_fail(*two, request(k, 30s)).token > first.token);
}
