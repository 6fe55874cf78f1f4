// SPDX-License-Identifier: Apache-2.0
// Three servers, one of which fails.
#include <unistd.h>
#include <catch2/catch.hpp>
#include "support/zookeeper_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

constexpr Duration ttl = 6s;

Request ask() { return request(Key::parse("k").value(), ttl); }

// Renews for a while as a keeper does; false: the deadline passed, or it was lost.
bool keeps(Backend& b, Lease& l, Duration span) {
  for (const Deadline end = Clock::now() + span; Clock::now() < end;) {
    const auto r = b.renew(l, ttl);
    if (r && !std::holds_alternative<Kept>(*r)) return false;
    if (r) l = std::get<Kept>(*r).lease;
    if (Clock::now() >= l.deadline) return false;
    ::usleep(200000);
  }
  return true;
}

// Nothing is granted and nothing is renewed.
void without_quorum(ZookeeperEnsemble& ensemble) {
  Settings settings;
  settings.op_timeout = settings.connect_timeout = 500ms;
  const auto backend = open_zookeeper(ensemble.url() + "/q", settings), other = open_zookeeper(ensemble.url() + "/q", settings);
  const Lease l = acquire_or_fail(*backend, ask());
  const std::size_t leader = ensemble.leader(), follower = ensemble.follower();
  ensemble[leader].kill();
  ensemble[follower].kill();
  for (const Deadline end = l.deadline; Clock::now() < end; ::usleep(100000)) {
    const auto r = backend->renew(l, ttl);
    if (r) REQUIRE(std::holds_alternative<Lost>(*r));
    const auto p = (*other->enqueue(ask()))->poll(0s);
    REQUIRE_FALSE(p.has_value());
    CHECK(retryable(p.error().code));
  }
}

}  // namespace

TEST_CASE("the leader is killed, a follower freezes: the holder keeps its lock, tokens rise; without a quorum nothing moves") {
  ZookeeperEnsemble ensemble;
  Settings settings;
  settings.op_timeout = 500ms;
  const auto backend = open_zookeeper(ensemble.url() + "/e", settings), other = open_zookeeper(ensemble.url() + "/e", settings);
  Lease l = acquire_or_fail(*backend, ask());
  const auto w = other->enqueue(ask()).value();
  CHECK(std::holds_alternative<Waiting>(w->poll(20ms).value()));

  const std::size_t leader = ensemble.leader();
  ensemble[leader].kill();
  CHECK(keeps(*backend, l, ttl));
  ensemble[leader].start();

  const std::size_t frozen = ensemble.follower();
  ensemble[frozen].freeze();
  CHECK(keeps(*backend, l, ttl / 2));
  ensemble[frozen].thaw();
  ensemble.leader();

  (void)w->poll(100ms);
  release_or_fail(*backend, l);
  for (const Deadline end = Clock::now() + 20s; Clock::now() < end;) {
    const auto p = w->poll(1s);
    if (!p || !std::holds_alternative<Granted>(*p)) continue;
    const Lease next = std::get<Granted>(*p).lease;
    CHECK(next.token > l.token);
    release_or_fail(*other, next);
    return without_quorum(ensemble);
  }
  FAIL("the waiter was not granted");
}
