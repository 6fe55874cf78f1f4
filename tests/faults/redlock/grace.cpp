// SPDX-License-Identifier: Apache-2.0
// Which masters may vote: not one that restarted lately, whatever its durability settings; and for
// a lease longer than the grace, only one that is proven to keep it.
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// Waits until they have run long enough that a grace of a second is over for new connections, which
// see whole seconds.
int uptime(RedisServer& s) { return std::stoi(info_field(s, "server", "uptime_in_seconds")); }
void grow_old(RedlockMasters& m, int seconds = 3) {
  for (auto& s : m.servers) REQUIRE(eventually(15s, [&] { return uptime(*s) >= seconds; }));
}

Result<Progress> one_try(const std::string& url, Duration ttl, bool wait = true) {
  Request r = request(key("k"), ttl);
  r.wait = wait;
  auto b = open_redlock(url, quick());
  auto p = (*b->enqueue(r))->poll(0s);
  if (p && std::holds_alternative<Granted>(*p)) (void)b->release(std::get<Granted>(*p).lease);
  return p;
}

}  // namespace

TEST_CASE(
    "masters that restarted lately have no vote, whatever they save now; a request without wait is "
    "told that it is "
    "unavailable") {
  RedlockMasters m{{.config = durable}};
  for (const bool wait : {false, true}) {
    Request r = request(key("k"), 30s);
    r.wait = wait;
    auto b = open_redlock(m.url(""), quick());  // all of them have just been started
    const auto p = (*b->enqueue(r))->poll(0s);
    CHECK(b->grants_nothing());
    if (wait) CHECK((p && std::holds_alternative<Waiting>(*p)));
    else REQUIRE_FALSE(p);
    if (!p) CHECK(p.error().code == Errc::unavailable);
  }
}

TEST_CASE("a master that was wiped has no vote: no second grant") {
  RedlockMasters m{{.config = durable}};
  const std::string url = m.url("?restart_grace=5s");  // the default of a minute would take as long
  grow_old(m, 7);
  auto holder = open_redlock(url, quick());
  for (const std::size_t i : {3, 4}) m.servers[i]->freeze();
  // with the votes of the other three
  const Lease held = granted_within(*holder, request(key("k"), 30s), 10s);
  for (const std::size_t i : {3, 4}) m.servers[i]->thaw();
  restart_wiped(*m.servers[0]);
  CHECK(m.value(0, "k").empty());
  auto other = open_redlock(url, quick());
  const auto p = (*other->enqueue(request(key("k"), 30s)))->poll(0s);
  REQUIRE(uptime(*m.servers[0]) < 5);  // otherwise the machine was too slow for this test
  REQUIRE_FALSE((p && std::holds_alternative<Granted>(*p)));
  // two of five have it: the job ends before the wiped one may vote
  CHECK(lost(renewed_within(*holder, held, 30s, 5s)));
}

TEST_CASE("a ttl above the grace: refused without a majority that is proven to keep it") {
  RedlockMasters m{{.config = durable}};
  const std::string url = m.url("?restart_grace=1s");
  grow_old(m);
  auto holder = open_redlock(url, quick());
  const Lease first = granted_within(*holder, request(key("held"), 30s), 10s);
  for (const std::size_t i : {1, 3})
    m.servers[i]->command({"CONFIG", "SET", "appendfsync", "everysec"});
  {
    // Three are enough, and only these vote.
    auto b = open_redlock(url, quick());
    const Lease l = granted_within(*b, request(key("k"), 30s), 10s);
    for (const std::size_t i : {1, 3}) CHECK(m.value(i, "k").empty());
    CHECK(votes_of(m, "k", l.owner) == 3);
    CHECK(kept(b->renew(l, 30s)));
    for (const std::size_t i : {1, 3}) CHECK(m.value(i, "k").empty());
    CHECK(b->release(l) == Released::yes);
  }
  m.servers[4]->command({"CONFIG", "SET", "appendonly", "no"});
  for (const bool wait : {false, true}) {
    const auto p = one_try(url, 30s, wait);
    REQUIRE_FALSE(p);
    INFO(p.error().message);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find("restart_grace=1s") != std::string::npos);
    CHECK(p.error().message.find("30s") != std::string::npos);
  }
  for (const auto& [items, ttl] : {std::pair{"?restart_grace=0", Duration{30s}},
                                   std::pair{"?restart_grace=1s", Duration{1s}}}) {
    const auto p = one_try(m.url(items), ttl);
    CAPTURE(items);
    CHECK((p && std::holds_alternative<Granted>(*p)));
  }
  // Longer by its handle: refused; an equal renewal by the holder: one warning, and it goes on.
  const auto longer = open_redlock(url, quick())->renew({first.key, first.owner}, 60s);
  REQUIRE_FALSE(longer);
  CHECK(longer.error().code == Errc::usage);
  for (auto& s : m.servers) s->command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  CHECK(kept(renewed_within(*holder, first, 30s, 5s)));
  CHECK(kept(renewed_within(*holder, first, 30s, 5s)));
  CHECK(holder->warnings().size() == 1);
  CHECK(votes_of(m, "held", first.owner) == 5);
}
