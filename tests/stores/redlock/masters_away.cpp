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
    auto holder = open_redlock(m.proxied_url(), quick()),
         other = open_redlock(m.proxied_url(), quick());
    const Key k = key("held"), free = key("free");
    const Lease held = acquire_or_fail(*holder, request(k, 30s));
    CHECK(has_all_votes(m, *holder, held, "held", 30s));
    take_away(m, 1, how);
    take_away(m, 3, how);
    CHECK(kept(renewed_within(*holder, held, 30s, 5s)));
    FencingToken newest = 0;
    for (int i = 0; i < 5; ++i) {
      const Lease l = granted_within(*other, request(free, 30s), 5s);
      CHECK(l.token > newest);
      newest = l.token;
      CHECK(other->release(l) == Released::yes);
    }
    auto fresh = open_redlock(m.proxied_url(), quick());  // it never connected to the two
    CHECK(fresh->check(k, held.token) == Validity::valid);
    CHECK(kept(renewed_within(*holder, held, 30s, 5s)));
    bring_back(m, 1, how);
    bring_back(m, 3, how);
    // A killed master has lost the vote: the next renewals take it again, and write the token.
    CHECK(eventually(10s, [&] {
      REQUIRE(kept(renewed_within(*holder, held, 30s, 5s)));
      return votes_of(m, "held", held.owner) == 5;
    }));
    take_away(m, 0, how);
    take_away(m, 2, how);
    CHECK(kept(renewed_within(*holder, held, 30s, 5s)));  // with the votes that were taken again
    CHECK(holder->release(held) == Released::yes);
    bring_back(m, 0, how);
    bring_back(m, 2, how);
    CHECK(granted_within(*other, request(k, 30s), 5s).token > held.token);
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
    const Lease held = acquire_or_fail(*holder, request(k, 30s));
    for (const std::size_t i : {0, 2, 4}) take_away(m, i, how);
    for (int i = 0; i < 2; ++i) {
      const auto began = Clock::now();
      const auto renewal = holder->renew(held, 30s);
      CHECK(Clock::now() - began < 2s);
      REQUIRE_FALSE(renewal);
      CHECK(retryable(renewal.error().code));
      CHECK(renewal.error().message.find("of 5 masters") != std::string::npos);
    }
    CHECK_FALSE(holder->check(k, held.token));
    CHECK_FALSE(holder->inspect(k));
    auto other = open_redlock(m.proxied_url(), quick(300ms, 300ms));
    const auto p = (*other->enqueue(request(key("other"), 30s)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(retryable(p.error().code));
    for (const std::size_t i : {0, 2, 4}) bring_back(m, i, how);
    if (how != Away::killed) CHECK(kept(renewed_within(*holder, held, 30s, 10s)));
    else CHECK(lost(renewed_within(*holder, held, 30s, 10s)));  // three have lost it
  }
}

TEST_CASE("a master that restarts with appendfsync always keeps its votes") {
  RedlockMasters m{{.config = {"appendonly yes", "appendfsync always"}}};
  auto holder = open_redlock(m.url(), quick()),
       other = open_redlock(m.url(), quick());  // restart_grace=0: for the grant at the end
  const Key k = key("durable");
  const Lease held = acquire_or_fail(*holder, request(k, 30s));
  for (auto& s : m.servers) s->restart();
  CHECK(kept(renewed_within(*holder, held, 30s, 5s)));
  CHECK(votes_of(m, "durable", held.owner) == 5);
  auto waiter = *other->enqueue(request(k, 30s));
  CHECK(std::holds_alternative<Waiting>(*waiter->poll(0s)));
  CHECK(holder->release(held) == Released::yes);
  CHECK(granted_within(*other, request(k, 30s), 5s).token > held.token);
}

TEST_CASE(
    "a master that restarts without its data has no vote until the grace is over; tokens rise all "
    "the same") {
  RedlockMasters m{{.config = durable, .uptime = 1000s}};
  auto holder = open_redlock(m.url(""), quick());
  const Key k = key("forgetful");
  const Lease held = granted_within(*holder, request(k, 30s), 15s);
  CHECK(has_all_votes(m, *holder, held, "forgetful", 30s));
  restart_wiped(*m.servers[0]);
  restart_wiped(*m.servers[1]);
  auto other = open_redlock(m.url(""), quick());
  auto waiter = *other->enqueue(request(k, 30s));
  CHECK(std::holds_alternative<Waiting>(*waiter->poll(0s)));
  CHECK(votes_of(m, "forgetful", held.owner) == 3);
  CHECK(kept(renewed_within(*holder, held, 30s, 5s)));
  restart_wiped(*m.servers[2]);  // a majority has lost its data
  auto third = open_redlock(m.url(""), quick());
  const auto p = *(*third->enqueue(request(key("other"), 30s)))->poll(0s);
  REQUIRE(std::holds_alternative<Waiting>(p));
  INFO(std::get<Waiting>(p).why);
  CHECK(std::get<Waiting>(p).why.find("3 of 5 masters restarted less than 30s ago") !=
        std::string::npos);
  CHECK(lost(renewed_within(*holder, held, 30s, 5s)));
  // A short grace, to see its end.
  auto patient = open_redlock(m.url("?restart_grace=3s"), quick());
  CHECK(granted_within(*patient, request(k, 3s), 20s).token > held.token);
}

TEST_CASE("two names of one server are refused, as it would vote twice") {
  RedlockMasters m{{.count = 2, .proxied = true}};
  auto backend =
      open_redlock(fmt::format("redlock://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}?restart_grace=0",
                               m.servers[0]->port(), m.servers[1]->port(), m.proxies[0]->port()),
                   quick());
  const auto p = (*backend->enqueue(request(key("k"))))->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::usage);
  CHECK(p.error().message.find("same server") != std::string::npos);
}
