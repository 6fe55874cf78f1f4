// SPDX-License-Identifier: Apache-2.0
// Masters that are killed, frozen, cut off, restarted with and without their data.
#include <numeric>
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

enum class Away { killed, frozen, cut };

void take_away(RedlockMasters& m, std::size_t i, Away how) {
  switch (how) {
    case Away::killed: m.servers[i]->kill(); break;
    case Away::frozen: m.servers[i]->freeze(); break;
    case Away::cut:
      m.proxies[i]->stall(Proxy::to_client, true);
      m.proxies[i]->stall(Proxy::to_server, true);
      break;
  }
}
void bring_back(RedlockMasters& m, std::size_t i, Away how) {
  switch (how) {
    case Away::killed: m.servers[i]->start(); break;
    case Away::frozen: m.servers[i]->thaw(); break;
    case Away::cut:
      m.proxies[i]->stall(Proxy::to_client, false);
      m.proxies[i]->stall(Proxy::to_server, false);
      m.proxies[i]->cut();
      break;
  }
}

}  // namespace

TEST_CASE(
    "two of five masters are away: grants go on, the lock is kept; when back they take part "
    "again") {
  for (const Away how : {Away::killed, Away::frozen, Away::cut}) {
    CAPTURE(static_cast<int>(how));
    RedlockMasters m{{.proxied = true}};
    auto holder = open_redlock(m.proxied_url(), patient()),
         other = open_redlock(m.proxied_url(), patient());
    const Key k = key("held"), free = key("free");
    const Lease held = granted_within(*holder, request(k, 300s));
    CHECK(has_all_votes(m, *holder, held, "held", 300s));
    take_away(m, 1, how);
    take_away(m, 3, how);
    CHECK(kept(renewed(*holder, held, 300s)));
    FencingToken newest = 0;
    for (int i = 0; i < 5; ++i) {
      const Lease l = granted_within(*other, request(free, 300s));
      CHECK(l.token > newest);
      newest = l.token;
      CHECK(other->release(l) == Released::yes);
    }
    auto fresh = open_redlock(m.proxied_url(), patient());  // it never connected to the two
    CHECK(fresh->check(k, held.token) == Validity::valid);
    CHECK(kept(renewed(*holder, held, 300s)));
    bring_back(m, 1, how);
    bring_back(m, 3, how);
    // A killed master has lost the vote: the next renewals take it again, and write the token.
    CHECK(eventually([&] {
      REQUIRE(kept(renewed(*holder, held, 300s)));
      return votes_of(m, "held", held.owner) == 5;
    }));
    take_away(m, 0, how);
    take_away(m, 2, how);
    CHECK(kept(renewed(*holder, held, 300s)));  // with the votes that were taken again
    CHECK(holder->release(held) == Released::yes);
    bring_back(m, 0, how);
    bring_back(m, 2, how);
    CHECK(granted_within(*other, request(k, 300s)).token > held.token);
  }
}

TEST_CASE(
    "three of five masters are away: nothing is granted, nothing is renewed, and the message says "
    "why") {
  for (const Away how : {Away::killed, Away::frozen, Away::cut}) {
    CAPTURE(static_cast<int>(how));
    RedlockMasters m{{.proxied = true}};
    auto holder = open_redlock(m.proxied_url(), quick(300ms, 300ms));
    const Key k = key("k");
    const Lease held = granted_within(*holder, request(k, 300s));
    for (const std::size_t i : {0, 2, 4}) take_away(m, i, how);
    for (int i = 0; i < 2; ++i)
      CHECK(ends_within(2s, [&] {
        const auto renewal = holder->renew(held, 300s);
        REQUIRE_FALSE(renewal);
        CHECK(retryable(renewal.error().code));
        CHECK(renewal.error().message.find("of 5 masters") != std::string::npos);
      }));
    CHECK_FALSE(holder->check(k, held.token));
    CHECK_FALSE(holder->inspect(k));
    auto other = open_redlock(m.proxied_url(), quick(300ms, 300ms));
    const auto p = (*other->enqueue(request(key("other"), 300s)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(retryable(p.error().code));
    for (const std::size_t i : {0, 2, 4}) bring_back(m, i, how);
    if (how != Away::killed) CHECK(kept(renewed(*holder, held, 300s)));
    else CHECK(lost(renewed(*holder, held, 300s)));  // three have lost it
  }
}

TEST_CASE("a master that restarts with appendfsync always keeps its votes") {
  RedlockMasters m{{.config = {"appendonly yes", "appendfsync always"}}};
  auto holder = open_redlock(m.url(), patient()),
       other = open_redlock(m.url(), patient());  // restart_grace=0: for the grant at the end
  const Key k = key("durable");
  const Lease held = granted_within(*holder, request(k, 300s));
  REQUIRE(has_all_votes(m, *holder, held, "durable", 300s));
  for (auto& s : m.servers) s->restart();
  CHECK(kept(renewed(*holder, held, 300s)));
  CHECK(votes_of(m, "durable", held.owner) == 5);
  auto waiter = *other->enqueue(request(k, 300s));
  CHECK(std::holds_alternative<Waiting>(answer_of(*waiter)));
  CHECK(holder->release(held) == Released::yes);
  CHECK(granted_within(*other, request(k, 300s)).token > held.token);
}

TEST_CASE(
    "a master that restarts without its data has no vote until the grace is over; tokens rise all "
    "the same") {
  RedlockMasters m{{.config = durable, .uptime = 1000s}};
  const std::string url = m.url("?restart_grace=10m");  // a busy machine is not done in 30 s
  auto holder = open_redlock(url, patient());
  const Key k = key("forgetful");
  const Lease held = granted_within(*holder, request(k, 300s));
  CHECK(has_all_votes(m, *holder, held, "forgetful", 300s));
  restart_wiped(*m.servers[0]);
  restart_wiped(*m.servers[1]);
  auto other = open_redlock(url, patient());
  CHECK(std::holds_alternative<Waiting>(answer_of(*other, request(k, 300s))));
  CHECK(votes_of(m, "forgetful", held.owner) == 3);
  CHECK(kept(renewed(*holder, held, 300s)));
  restart_wiped(*m.servers[2]);  // a majority has lost its data
  auto third = open_redlock(url, patient());
  // As soon as it is connected to all that are up.
  const auto w = *third->enqueue(request(key("other"), 300s));
  std::string why;
  const bool named = eventually([&] {
    why = std::get<Waiting>(answer_of(*w)).why;
    return why.find("3 of 5 masters restarted less than 10m ago") != why.npos;
  });
  INFO(why);
  CHECK(named);
  CHECK(lost(renewed(*holder, held, 300s)));
  // A short grace, to see its end.
  auto brief = open_redlock(m.url("?restart_grace=3s"), patient());
  CHECK(granted_within(*brief, request(k, 3s)).token > held.token);
}

TEST_CASE("two names of one server are refused, as it would vote twice") {
  RedlockMasters m{{.count = 2, .proxied = true}};
  auto backend =
      open_redlock(fmt::format("redlock://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}?restart_grace=0",
                               m.servers[0]->port(), m.servers[1]->port(), m.proxies[0]->port()),
                   patient());
  // As soon as it is connected to both: to two different servers it may be a moment before.
  std::string why;
  CHECK(eventually([&] {
    const auto p = (*backend->enqueue(request(key("k"))))->poll(0s);
    if (p && std::holds_alternative<Granted>(*p))
      (void)backend->release(std::get<Granted>(*p).lease);
    why = p ? "" : p.error().message;
    return !p && p.error().code == Errc::usage;
  }));
  CHECK(why.find("same server") != std::string::npos);
}

// Of three masters the first alone still has the first lease; the others have the second.
std::pair<Lease, Lease> one_and_next(RedlockMasters& m, Backend& late, Backend& next) {
  const Lease lease = granted_within(late, request(key("k"), 300s));
  REQUIRE(has_all_votes(m, late, lease, "k", 300s));
  for (const std::size_t i : {1, 2}) m.servers[i]->command({"DEL", "k"});
  return {lease, granted_within(next, request(key("k"), 300s))};
}

TEST_CASE("a release that most masters refuse was not held, though one of them is slow to say so") {
  RedlockMasters m{{.count = 3, .proxied = true}};
  auto late = open_redlock(m.proxied_url(), patient()),
       other = open_redlock(m.proxied_url(), patient());
  const auto [lease, next] = one_and_next(m, *late, *other);  // as behind a forced release
  m.proxies[2]->delay(Proxy::to_client, 300ms);
  CHECK(late->release(lease) == Released::was_not_held);
  CHECK(votes_of(m, "k", next.owner) == 2);
}

TEST_CASE("a release after the end: a silent master is not counted as one that had the lease") {
  RedlockMasters m{{.count = 3, .proxied = true}};
  auto late = open_redlock(m.proxied_url(), quick(2s, long_enough)),
       other = open_redlock(m.proxied_url(), patient());
  auto [lease, next] = one_and_next(m, *late, *other);  // its last renewal reached that one alone
  lease.deadline = Clock::now();
  m.proxies[2]->stall(Proxy::to_client, true);
  CHECK(answered([&late, &mine = lease] { return late->release(mine); }) == Released::was_not_held);
  CHECK(votes_of(m, "k", next.owner) == 2);
}
