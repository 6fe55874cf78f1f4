// SPDX-License-Identifier: Apache-2.0
// Which masters may vote: not one that restarted lately, whatever its durability settings. A lease
// is not longer than the grace.
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

int uptime(RedisServer& s) { return std::stoi(info_field(s, "server", "uptime_in_seconds")); }
Progress one_try(const std::string& url, Duration ttl) {
  auto b = open_redlock(url, patient());
  const Progress p = answer_of(*b, request(key("k"), ttl));
  if (const auto* g = std::get_if<Granted>(&p)) (void)b->release(g->lease);
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
    auto b = open_redlock(m.url(""), patient());  // all of them have just been started
    const auto p = (*b->enqueue(r))->poll(0s);
    CHECK(b->health().in_grace_period);
    if (wait) CHECK((p && std::holds_alternative<Waiting>(*p)));
    else REQUIRE_FALSE(p);
    if (!p) CHECK(p.error().code == Errc::unavailable);
    const std::string why = p ? std::get<Waiting>(*p).why : p.error().message;
    CHECK(why.find("?restart_grace=0 if these servers never forget (dlock-redlock(7))") !=
          std::string::npos);
  }
}

TEST_CASE("a master that was wiped has no vote: no second grant") {
  CHECK(one_of_five([&] {
    RedlockMasters m{{.config = durable, .uptime = 1000s}};
    auto holder = open_redlock(m.url(""), patient());
    for (const std::size_t i : {3, 4}) m.servers[i]->freeze();
    // with the votes of the other three
    const Lease held = granted_within(*holder, request(key("k"), 30s));
    for (const std::size_t i : {3, 4}) m.servers[i]->thaw();
    restart_wiped(*m.servers[0]);
    CHECK(m.value(0, "k").empty());
    auto other = open_redlock(m.url(""), patient());
    const auto p = (*other->enqueue(request(key("k"), 30s)))->poll(0s);
    if (uptime(*m.servers[0]) >= 30) return false;  // the machine was too slow
    REQUIRE_FALSE((p && std::holds_alternative<Granted>(*p)));
    // two of five have it: the job ends before the wiped one may vote
    CHECK(lost(renewed(*holder, held, 30s)));
    return true;
  }));
}

TEST_CASE("a ttl above the grace is refused before a master is asked, however durable they are") {
  RedlockMasters m{{.config = durable, .uptime = 1000s}};
  for (const bool wait : {false, true}) {
    Request r = request(key("k"), 5min);
    r.wait = wait;
    const auto refused = open_redlock(m.url(""), patient())->enqueue(r);
    REQUIRE_FALSE(refused);
    INFO(refused.error().message);
    CHECK(refused.error().code == Errc::usage);
    CHECK(refused.error().message.find("--ttl 5m is longer than restart_grace=30s") !=
          std::string::npos);
  }
  for (const auto& [items, ttl] :
       {std::pair{"?restart_grace=0", Duration{5min}}, std::pair{"", Duration{30s}}}) {
    CAPTURE(items);
    CHECK(std::holds_alternative<Granted>(one_try(m.url(items), ttl)));
  }
  // By its handle longer than this URL allows: refused; the holder's own renewals go on.
  auto holder = open_redlock(m.url("?restart_grace=5m"), patient());
  const Lease held = granted_within(*holder, request(key("held"), 5min));
  const auto longer = open_redlock(m.url(""), patient())->renew({held.key, held.owner}, 5min);
  REQUIRE_FALSE(longer);
  CHECK(longer.error().code == Errc::usage);
  CHECK(kept(renewed(*holder, held, 5min)));
  // Masters that a busy machine left out are taken back behind a renewal.
  const auto all = [&] { return votes_of(m, "held", held.owner) == 5; };
  CHECK(eventually([&] { return all() || (kept(holder->renew(held, 5min)) && all()); }));
}
