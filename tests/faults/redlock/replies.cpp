// SPDX-License-Identifier: Apache-2.0
// Requests that were carried out and whose answers got lost, in each phase; other Redlock clients.
#include "redlock/recipe.hpp"
#include "redlock_faults.hpp"
#include "redlock_scripts/scripts.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// So that EVALSHA finds every script, and a lost answer is that of the phase it is meant to be.
void warm(RedlockMasters& m) {
  auto b = open_redlock(m.url(), quick());
  const Lease l = granted_within(*b, request(key("warm")), 5s);
  REQUIRE(kept(b->renew(l, 10s)));
  REQUIRE(b->inspect(key("warm")));
  REQUIRE(b->release(l) == Released::yes);
}

}  // namespace

TEST_CASE("lost answers of phase 1, phase 2, a renewal and a release: no second holder, no orphan") {
  RedlockMasters m{{.proxied = true}};
  warm(m);
  struct Step {
    const char* what;
    const redis::Script& script;
  };
  for (const Step step : {Step{"phase 1", redlock::scripts::acquire}, Step{"phase 2", redlock::scripts::confirm},
                          Step{"renewal", redlock::scripts::renew}, Step{"release", redlock::scripts::release}})
    for (const bool quietly : {false, true})
      for (const std::size_t losses : {2U, 3U, 5U}) {
        CAPTURE(step.what, quietly, losses);
        auto one = open_redlock(m.proxied_url(), quick(200ms, 300ms)), two = open_redlock(m.url(), quick());
        const Key k = key("k");
        FencingToken newest = 0;
        if (const auto seen = two->inspect(k).value()) newest = seen->fence;
        std::optional<Lease> lease;
        if (std::string_view{step.what} == "renewal" || std::string_view{step.what} == "release")
          lease = granted_within(*one, request(k, 3s), 5s);
        for (std::size_t i = 0; i < losses; ++i) m.proxies[i]->lose_reply(std::string{step.script.sha}, quietly);
        if (!lease) lease = granted_within(*one, request(k, 3s), 10s);
        CHECK(lease->token > newest);
        CHECK(Clock::now() < lease->deadline);
        CHECK(kept(renewed_within(*one, *lease, 3s, 3s)));
        CHECK(two->check(k, lease->token) == Validity::valid);
        Result<Released> released = one->release(*lease);
        for (int i = 0; i < 20 && !released; ++i) released = one->release(*lease);
        CHECK(released == Released::yes);
        // Nothing is left that keeps the next one out; whatever remains somewhere ends by its time.
        const Lease next = granted_within(*two, request(k, 3s), 5s);
        CHECK(next.token > lease->token);
        CHECK(two->release(next) == Released::yes);
        CHECK(eventually(4s, [&] {
          std::size_t left = 0;
          for (std::size_t i = 0; i < m.size(); ++i) left += !m.value(i, "k").empty();
          return left == 0;
        }));
      }
}

TEST_CASE("an attempt that no majority answered leaves nothing behind") {
  RedlockMasters m{{.proxied = true}};
  warm(m);
  auto one = open_redlock(m.proxied_url(), quick(1s, 300ms));
  REQUIRE(one->inspect(key("k")));  // connected
  for (std::size_t i = 0; i < 5; ++i) m.proxies[i]->stall(Proxy::to_client, true);
  auto waiter = *one->enqueue(request(key("k"), 20s));
  const auto p = waiter->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::timed_out);
  // It was carried out everywhere, and so was the undo that came behind it on the same connections.
  CHECK(eventually(3s, [&] {
    std::size_t left = 0;
    for (std::size_t i = 0; i < m.size(); ++i) left += !m.value(i, "k").empty();
    return left == 0;
  }));
  CHECK(granted_within(*open_redlock(m.url(), quick()), request(key("k")), 3s).token > 0);
}

TEST_CASE("each attempt is another owner to the masters: late copies of a release and of an undo hit no later attempt") {
  RedlockMasters m;
  auto backend = open_redlock(m.url(), quick()), other = open_redlock(m.url(), quick());
  const Request r = request(key("k"), 20s);
  const auto late_copy = [&](const std::string& vote) {  // of scripts/release.lua, at each master
    std::size_t deleted = 0;
    const redlock::Names at{"k"};
    for (auto& s : m.servers)
      deleted +=
          s->command({"EVAL", redlock::scripts::release.text, "3", at.lock, at.record, at.wake, "1", vote, "0"}).number_at(2) ==
          1;
    return deleted;
  };
  const auto everywhere = [&] { return eventually(3s, [&] { return votes_of(m, "k", r.owner) == 5; }); };
  Lease l = granted_within(*backend, r, 5s);
  REQUIRE(everywhere());
  std::vector<std::string> votes{m.value(0, "k")};
  CHECK(backend->release(l) == Released::yes);
  // The same request again, as after a grant that came too late to start a job.
  const Lease again = granted_within(*backend, r, 5s);
  CHECK(again.token > l.token);
  CHECK(again.owner == r.owner);  // a handle knows nothing of attempts
  REQUIRE(everywhere());
  votes.push_back(m.value(0, "k"));
  CHECK(votes[0] != votes[1]);
  CHECK(late_copy(votes[0]) == 0);
  CHECK(kept(backend->renew(again, 20s)));
  CHECK(votes_of(m, "k", r.owner) == 5);
  // And while it waits: each try that was taken back.
  Request waiting = request(key("k"), 20s);
  for (std::size_t i = 0; i < 2; ++i) m.servers[i]->command({"DEL", "k"});  // so that a try gets votes, and has to give them back
  auto waiter = *other->enqueue(waiting);
  std::vector<std::string> tried;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(0s)));
    std::string seen = m.servers[0]->command({"GET", redlock::Names{"k"}.record}).text;
    REQUIRE(seen.find(waiting.owner.hex()) != seen.npos);
    seen = seen.substr(seen.find(waiting.owner.hex()));
    tried.push_back(seen.substr(0, seen.find('|')));
    CHECK(eventually(1s, [&] { return m.value(0, "k").empty(); }));
  }
  CHECK((tried[0] != tried[1] && tried[1] != tried[2]));
  CHECK(backend->release(again) == Released::yes);
  const Lease next = granted_within(*waiter, 5s);
  for (const auto& vote : tried) CHECK(late_copy(vote) == 0);
  CHECK(kept(other->renew(next, 20s)));
}

TEST_CASE(
    "a handle is enough for another process, also where the lock had to be waited for; what an undone attempt left does not "
    "count") {
  RedlockMasters m;
  auto holder = open_redlock(m.url(), quick()), backend = open_redlock(m.url(), quick());
  const Request r = request(key("k"), 20s);
  const Lease before = granted_within(*holder, request(key("k"), 20s), 5s);
  auto waiter = *backend->enqueue(r);
  REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(50ms)));
  CHECK(holder->release(before) == Released::yes);
  const Lease l = granted_within(*waiter, 5s);
  const auto elsewhere = [&] { return open_redlock(m.url(), quick()); };
  const Lease handle{l.key, l.owner};  // all that a handle says
  CHECK(kept(elsewhere()->renew(handle, 30s)));
  CHECK(elsewhere()->check(l.key, l.owner) == Validity::valid);
  Lease forged = handle;
  forged.owner = Owner::random();
  CHECK(lost(elsewhere()->renew(forged, 30s)));
  CHECK(elsewhere()->release(forged) == Released::was_not_held);
  CHECK(elsewhere()->release(handle) == Released::yes);
  CHECK(elsewhere()->release(handle) == Released::was_not_held);
  // Votes of the same owner that no majority ever confirmed: as of an attempt whose undo is still under way.
  const redlock::Names at{"k"};
  for (auto& s : m.servers)
    REQUIRE(s->command({"EVAL", redlock::scripts::acquire.text, "3", at.lock, at.record, at.wake, "1",
                        r.owner.hex() + "0123456789abcdef", "20000", ""})
                .text_at(2) == "granted");
  CHECK(votes_of(m, "k", r.owner) == 5);
  CHECK(lost(elsewhere()->renew(handle, 30s)));
  CHECK(elsewhere()->check(l.key, l.owner) == Validity::stale);
}

TEST_CASE("other clients of the algorithm: excluded both ways, shown, waited for") {
  RedlockMasters m;
  auto backend = open_redlock(m.url(), quick());
  const Key k = key("shared name");
  const auto theirs = [&](std::size_t i) {
    return m.servers[i]->command({"SET", "shared name", "0123456789abcdef0123", "NX", "PX", "1500"});
  };
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(theirs(i).text == "OK");
  const auto began = Clock::now();
  auto waiter = *backend->enqueue(request(k, 20s));
  const auto p = *waiter->poll(0s);
  REQUIRE((std::holds_alternative<Waiting>(p) && std::get<Waiting>(p).holder));
  CHECK(std::get<Waiting>(p).holder->id == "01234567");
  CHECK(std::get<Waiting>(p).holder->token == 0);
  for (std::size_t i = 3; i < 5; ++i)
    CHECK(eventually(1s, [&] { return m.value(i, "shared name").empty(); }));  // ours were given back
  const auto seen = backend->inspect(k).value();
  REQUIRE(seen);
  CHECK(seen->holders.size() == 1);
  CHECK(seen->notes.front() == "3/5 nodes agree");
  const Lease l = granted_within(*backend, request(k, 20s), 10s);
  CHECK(Clock::now() - began > 1300ms);
  REQUIRE(votes_of(m, "shared name", l.owner) >= 3);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 5; ++i) refused += theirs(i).is(Reply::Type::nil);
  CHECK(refused >= 3);  // so they have no majority
  // Their release compares the value, which is not theirs.
  CHECK(votes_of(m, "shared name", l.owner) >= 3);
  CHECK(backend->release(l) == Released::yes);
}
