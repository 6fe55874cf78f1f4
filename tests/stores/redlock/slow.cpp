// SPDX-License-Identifier: Apache-2.0
// A slow or hanging master costs little, and takes part once it answers.
#include <poll.h>
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// Whether a whole run (connections, a grant and its release) ends at once, at one of many tries: a
// busy machine is late at some of them, and what waits for a master is at each.
bool runs_at_once(const std::string& url) {
  return eventually([&] {
    const Deadline began = Clock::now();
    auto b = open_redlock(url);
    const Lease l = granted_within(*b, request(key("k"), 300s));
    CHECK(b->release(l) == Released::yes);
    return Clock::now() - began < redlock::node_patience(300s);
  });
}

}  // namespace

TEST_CASE("one of five masters hangs: a run does not wait for it") {
  RedlockMasters m{{.proxied = true}};
  m.servers[3]->freeze();
  CHECK(runs_at_once(m.proxied_url()));
  m.servers[3]->thaw();
  m.proxies[3]->blackhole(true);  // accepts, and is silent
  CHECK(runs_at_once(m.proxied_url()));
}

TEST_CASE("a slow master takes part as soon as it answers") {
  RedlockMasters m{{.proxied = true}};
  m.proxies[2]->stall(Proxy::to_client, true);
  auto holder = open_redlock(m.proxied_url(), patient());  // nothing ends before it answers
  const Lease held = granted_within(*holder, request(key("k"), 300s));
  // The other four have theirs: one that a busy machine left out would be heard of, too.
  const auto four = [&] { return votes_of(m, "k", held.owner) == 4; };
  CHECK(eventually([&] { return four() || (kept(holder->renew(held, 300s)) && four()); }));
  CHECK(m.value(2, "k").empty());
  const int fd = holder->health().outage_fd;
  REQUIRE(fd >= 0);
  pollfd p{fd, POLLIN, 0};
  const auto calm = [&] {
    p.revents = 0;
    if (::poll(&p, 1, 0) == 0) return true;
    CHECK(kept(holder->renew(held, 300s)));
    return false;
  };
  CHECK(eventually(calm));
  m.proxies[2]->stall(Proxy::to_client, false);
  // As the keeper does: renew early when the descriptor is readable, and only then.
  int renewals = 0;
  CHECK(eventually([&] {
    p.revents = 0;
    if (::poll(&p, 1, 0) > 0) {
      ++renewals;
      CHECK(kept(holder->renew(held, 300s)));
    }
    return !m.value(2, "k").empty();
  }));
  CHECK(renewals <= 5);
  CHECK(eventually(calm));
  // A broken connection makes it readable, too.
  m.proxies[4]->cut();
  CHECK(::poll(&p, 1, static_cast<int>(long_enough / 1ms)) == 1);
  CHECK(kept(renewed(*holder, held, 300s)));
  CHECK(eventually([&] {
    CHECK(kept(holder->renew(held, 300s)));
    return ::poll(&p, 1, 0) == 0;
  }));
}

TEST_CASE("masters that all answer too late are asked less and less often") {
  RedlockMasters m{{.proxied = true}};
  auto backend = open_redlock(m.proxied_url(), patient());
  const Lease warm = granted_within(*backend, request(key("k"), 300s));
  CHECK(backend->release(warm) == Released::yes);
  for (auto& p : m.proxies) p->delay(Proxy::to_client, 3s);  // a try waits for 200 ms
  const auto w = *backend->enqueue(request(key("k"), 300s));
  const auto before = backend->counters().requests;
  for (const Deadline until = later(Clock::now(), 6s); Clock::now() < until;)
    CHECK_FALSE(w->poll(100ms));  // an error, also in a pause: what was known is no answer
  // A try is a vote and its undoing at each of five; 6 of them, after pauses of 0.1 to 1.6 s. At
  // the pace of the first pause it would be 17.
  CHECK(backend->counters().requests - before <= 80);
  for (auto& p : m.proxies) p->delay(Proxy::to_client, 0s);
  const Lease l = granted_within(*w);
  CHECK(backend->release(l) == Released::yes);
}
