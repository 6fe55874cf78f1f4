// SPDX-License-Identifier: Apache-2.0
// Messages that arrive long after their sender gave up: none of them ends, shortens or marks
// another grant.
#include "faults.hpp"
#include "redis_scripts/named_scripts.hpp"
#include "run/timing.hpp"
#include "store/several.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

std::string release_of(std::string_view recipe) {
  return std::string{recipe == "fair" ? redis::scripts::release.sha
                                      : redis::scripts::named_release.sha};
}

}  // namespace

TEST_CASE(
    "?replicas=: a grant is given back, and the release arrives while the next attempt holds the "
    "lock") {
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    RedisServer server;
    RedisServer replica{{.config = {fmt::format("replicaof 127.0.0.1 {}", server.port()),
                                    "repl-diskless-load swapdb"}}};
    REQUIRE(server.command({"CONFIG", "SET", "repl-diskless-sync-delay", "0"}).text == "OK");
    REQUIRE(replicates(server));
    Proxy proxy{server.port()};
    auto backend =
        open_redis(fmt::format("redis://127.0.0.1:{}?restart_grace=0&replicas=1", proxy.port()),
                   quick(1s), recipe);
    auto other = open_redis(server.url() + "?restart_grace=0", {}, recipe);
    const Key k = key("late");
    auto waiter = *backend->enqueue(request(k, 30s));
    // the scripts are known; a busy machine's replica may confirm too late at first
    release_or_fail(*backend, granted_within(*waiter));
    waiter = *backend->enqueue(request(k, 600s));
    replica.freeze();
    proxy.hold(release_of(recipe));
    // granted, but no replica has it: released, without an answer
    REQUIRE_FALSE(
        call_until([&] { return proxy.holds_one(2s); }, [&] { return waiter->poll(0s); }));
    replica.thaw();
    const Lease lease = granted_within(*waiter);
    proxy.let_go();
    REQUIRE(proxy.answered());
    CHECK(other->check(k, lease.token) == Validity::valid);
    CHECK(kept(renewed(*backend, lease, 600s)));
    Request once = request(k);
    once.wait = false;
    CHECK(std::holds_alternative<Busy>(*(*other->enqueue(once))->poll(0s)));
    release_or_fail(*backend, lease);
  }
}

TEST_CASE(
    "several keys, the first is taken away: the late release of the second does not end its next "
    "grant") {
  for (const char* recipe : {"fair", "set"}) {
    CAPTURE(recipe);
    Proxied p;
    auto other = open_redis(p.direct(), {}, recipe);
    const Key ma = key("ma"), mb = key("mb"), mc = key("mc");
    const Lease blocks = acquire_or_fail(*other, request(mc, 600s));
    // held keys are renewed, and so checked, each second
    auto all = several(open_redis(p.url(), quick(1s), recipe), {ma, mb, mc},
                       run::renewals({.proven = 600s, .renew_every = 1s}));
    auto waiter = *all->enqueue(request(ma, 600s));
    REQUIRE(waits(*waiter, 0s));
    p.proxy.hold(release_of(recipe));
    REQUIRE(other->force_release(ma, std::nullopt) == Released::yes);
    (void)call_until([&] { return p.proxy.holds_one(1ms); }, [&] { return waiter->poll(100ms); });
    REQUIRE(other->release(blocks) == Released::yes);
    granted_within(*waiter);
    const auto held = (**other->inspect(mb)).holders;
    REQUIRE(held.size() == 1);
    p.proxy.let_go();
    REQUIRE(p.proxy.answered());
    CHECK(other->check(mb, held[0].token) == Validity::valid);
    CHECK(waiter->cancel());
  }
}

TEST_CASE("a message sent for an earlier grant of the same owner affects only that grant") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key k = key("again");
  const Request r = request(k);
  const Lease first = acquire_or_fail(*backend, r);
  REQUIRE(backend->release(first) == Released::yes);
  // dlock never reuses an owner; the messages carry the token as well
  const Lease second = acquire_or_fail(*backend, r);
  REQUIRE(second.token > first.token);
  CHECK(backend->release(first) == Released::was_not_held);
  CHECK(lost(backend->renew(first, 10s)));
  CHECK(backend->note_start(first, {{}, RunStart{1, wall_micros() * 2}}) == UpdateResult::not_held);
  CHECK(backend->force_release(k, first.token) == Released::was_not_held);
  CHECK(backend->check(k, second.token) == Validity::valid);
  Lease by_handle = second;
  by_handle.token = 0;  // a handle carries only the owner
  CHECK(kept(backend->renew(by_handle, 10s)));
  CHECK(backend->release(by_handle) == Released::yes);
}

TEST_CASE(
    "the record outlives its longest need: a lease, a lock-delay, a note of --once-per 200d") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const auto days = [&](const char* name) {
    return server.command({"TTL", fmt::format("dlock:{{{}}}:fence", name)}).integer / 86400;
  };
  const auto day = 24h;
  const Lease dated = acquire_or_fail(*backend, request(key("dated")));
  CHECK((days("dated") == 89 || days("dated") == 90));
  const RunStart start{
      1, wall_micros() + std::chrono::duration_cast<Duration>(200 * day + 1min).count()};
  REQUIRE(backend->note_start(dated, {{}, start}) == UpdateResult::yes);
  CHECK(days("dated") == 200);
  REQUIRE(kept(backend->renew(dated, 10s)));
  release_or_fail(*backend, dated);
  // shorter needs do not end it earlier
  release_or_fail(*backend, acquire_or_fail(*backend, request(key("dated"))));
  CHECK(days("dated") >= 199);
  CHECK(backend->starts(key("dated"))->last == start);

  Request shared = request(key("long"), 100 * day);
  shared.mode = Mode::shared;
  shared.lock_delay = 60s;
  const Lease lease = acquire_or_fail(*backend, shared);
  CHECK(days("long") >= 100);
  shared = request(key("long"));
  shared.mode = Mode::shared;
  const Lease beside = acquire_or_fail(*backend, shared);
  REQUIRE(kept(backend->renew(beside, 10s)));
  release_or_fail(*backend, beside);
  CHECK(days("long") >= 100);
  REQUIRE(kept(backend->renew(lease, 300 * day)));
  CHECK(days("long") >= 300);
}
