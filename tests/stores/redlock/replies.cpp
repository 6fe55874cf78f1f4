// SPDX-License-Identifier: Apache-2.0
// Requests that were carried out and whose replies were lost, in each phase; other Redlock clients.
#include <sys/wait.h>
#include <cstdlib>
#include "redlock/record.hpp"
#include "redlock/redlock_backend.hpp"
#include "redlock_faults.hpp"
#include "redlock_scripts/scripts.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// So that EVALSHA finds every script, and a lost reply belongs to the intended phase.
void warm(RedlockMasters& m) {
  auto b = open_redlock(m.url(), patient());
  const Lease l = granted_within(*b, request(key("warm")));
  REQUIRE(kept(b->renew(l, 10s)));
  REQUIRE(b->inspect(key("warm")));
  REQUIRE(b->release(l) == Released::yes);
}

}  // namespace

TEST_CASE(
    "lost replies of phase 1, phase 2, a renewal and a release: no second holder, nothing left "
    "locked") {
  RedlockMasters m{{.proxied = true}};
  warm(m);
  struct Step {
    const char* what;
    const redis::Script& script;
  };
  for (const Step step :
       {Step{"phase 1", redlock::scripts::acquire}, Step{"phase 2", redlock::scripts::confirm},
        Step{"renewal", redlock::scripts::renew}, Step{"release", redlock::scripts::release}})
    for (const bool quietly : {false, true})
      for (const std::size_t losses : {2U, 3U, 5U}) {
        CAPTURE(step.what, quietly, losses);
        auto one = open_redlock(m.proxied_url(), quick(200ms, 300ms)),
             two = open_redlock(m.proxied_url(), patient());
        const Key k = key("k");
        // An attempt counts if this machine was quicker than the lease, which is short because
        // leftovers end by it.
        CHECK(one_of_five([&] {
          FencingToken newest = 0;
          if (const auto seen = two->inspect(k).value()) newest = seen->fence;
          std::optional<Lease> lease;
          if (std::string_view{step.what} == "renewal" || std::string_view{step.what} == "release")
            lease = granted_within(*one, request(k, 3s));
          for (std::size_t i = 0; i < losses; ++i)
            m.proxies[i]->lose_reply(std::string{step.script.sha}, quietly);
          if (!lease) lease = granted_within(*one, request(k, 3s));
          CHECK(lease->token > newest);
          const Renewal renewal = renewed(*one, *lease, 3s);
          if (Clock::now() >= lease->deadline) return false;
          REQUIRE(kept(renewal));
          const auto valid = two->check(k, lease->token);
          const auto released = answered([&] { return one->release(*lease); });
          if (Clock::now() >= std::get<Kept>(renewal).lease.deadline) return false;
          CHECK(valid == Validity::valid);
          CHECK(released == Released::yes);
          // Nothing remains that blocks the next contender; leftovers end by their ttl.
          const Lease next = granted_within(*two, request(k, 300s));
          CHECK(next.token > lease->token);
          CHECK(two->release(next) == Released::yes);
          return eventually([&] {
            std::size_t left = 0;
            for (std::size_t i = 0; i < m.size(); ++i) left += !m.value(i, "k").empty();
            return left == 0;
          });
        }));
      }
}

TEST_CASE("an attempt that no majority answered leaves nothing behind") {
  RedlockMasters m{{.proxied = true}};
  warm(m);
  auto one = open_redlock(m.proxied_url(), quick(1s, 300ms));
  (void)answered([&] { return one->inspect(key("k")); });  // connected
  for (std::size_t i = 0; i < 5; ++i) m.proxies[i]->stall(Proxy::to_client, true);
  auto waiter = *one->enqueue(request(key("k"), 20s));
  const auto p = waiter->poll(0s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::timed_out);
  // It was carried out everywhere, and so was the undo that followed on the same connections.
  CHECK(eventually([&] {
    std::size_t left = 0;
    for (std::size_t i = 0; i < m.size(); ++i) left += !m.value(i, "k").empty();
    return left == 0;
  }));
  CHECK(granted_within(*open_redlock(m.url(), patient()), request(key("k"))).token > 0);
}

TEST_CASE("each attempt has its own owner: late copies of an undo affect no later attempt") {
  RedlockMasters m;
  auto backend = open_redlock(m.url(), patient()), other = open_redlock(m.url(), patient());
  const auto late_copy = [&](const std::string& vote) {  // of script release, at each master
    std::size_t deleted = 0;
    const redlock::Names at{"k"};
    for (auto& s : m.servers)
      deleted += s->command({"EVAL", redlock::scripts::release.text, "3", at.lock, at.record,
                             at.wake, "1", vote, "0"})
                     .number_at(2) == 1;
    return deleted;
  };
  const Lease held = granted_within(*backend, request(key("k"), 300s));
  REQUIRE(has_all_votes(m, *backend, held, "k", 300s));
  // so that a try gets votes, and has to release them
  for (std::size_t i = 0; i < 2; ++i) m.servers[i]->command({"DEL", "k"});
  std::unique_ptr<Waiter> waiter;
  std::vector<std::string> tried;
  // A busy machine may leave a try unanswered, or without the first master.
  CHECK(one_of_five([&] {
    const Request waiting = request(key("k"), 300s);
    waiter = *other->enqueue(waiting);
    tried.clear();
    for (int i = 0; i < 3; ++i) {
      const auto p = waiter->poll(0s);
      REQUIRE_FALSE((p && std::holds_alternative<Granted>(*p)));
      const std::string seen = m.servers[0]->command({"GET", redlock::Names{"k"}.record}).text;
      // the owner is its third field
      for (std::size_t from = 0, to = 0; from < seen.size(); from = to + 1) {
        to = std::min(seen.find('|', from), seen.size());
        if (std::count(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(from), '|') == 2)
          tried.push_back(seen.substr(from, to - from));
      }
      CHECK(eventually([&] { return m.value(0, "k").empty(); }));
    }
    REQUIRE(tried.size() == 3);
    return tried[0] == waiting.owner.hex() && tried[0] != tried[1] && tried[1] != tried[2] &&
           tried[0] != tried[2];
  }));
  CHECK(backend->release(held) == Released::yes);
  const Lease next = granted_within(*waiter);
  CHECK(std::find(tried.begin(), tried.end(), next.owner.hex()) == tried.end());
  REQUIRE(has_all_votes(m, *other, next, "k", 300s));
  for (const auto& vote : tried) CHECK(late_copy(vote) == 0);
  CHECK(kept(other->renew(next, 300s)));
  CHECK(votes_of(m, "k", next.owner) == 5);
}

TEST_CASE(
    "a handle names one attempt: votes left by an earlier one at a minority are not taken for the "
    "grant") {
  RedlockMasters m;
  auto holder = open_redlock(m.url(), patient()), backend = open_redlock(m.url(), patient());
  const Request r = request(key("k"), 300s);
  const Lease before = granted_within(*holder, request(key("k"), 300s));
  auto waiter = *backend->enqueue(r);
  // the first attempt, which was undone
  REQUIRE(std::holds_alternative<Waiting>(answer_of(*waiter)));
  // Its undo did not reach two masters, and one round of its confirmation did: a token above all
  // others.
  REQUIRE(holder->release(before) == Released::yes);
  const redlock::Names at{"k"};
  for (const std::size_t i : {0, 1}) {
    const auto eval = [&](const redis::Script& script, std::vector<std::string_view> words) {
      std::vector<std::string_view> all{"EVAL", script.text, "3", at.lock, at.record, at.wake, "1"};
      all.insert(all.end(), words.begin(), words.end());
      return m.servers[i]->command(all);
    };
    const std::string first = r.owner.hex();
    const std::string list = redlock::list_text(
        redlock::parse_options(*Url::parse(m.url()), redlock::recipes[0], patient()).value());
    REQUIRE(eventually([&] { return m.value(i, "k").empty(); }));
    REQUIRE(eval(redlock::scripts::acquire, {first, "300000", "", list, "0"}).text_at(2) ==
            "granted");
    REQUIRE(eval(redlock::scripts::confirm, {first, std::to_string(wall_micros() + 60'000'000)})
                .number_at(2) == 1);
  }
  const Lease l = granted_within(*waiter);
  REQUIRE(votes_of(m, "k", l.owner) >= 3);
  const auto elsewhere = [&] { return open_redlock(m.url(), patient()); };
  const Lease handle{l.key, l.owner};  // all that a handle contains
  CHECK(kept(elsewhere()->renew(handle, 300s)));
  CHECK(elsewhere()->check(l.key, l.owner) == Validity::valid);
  Lease forged = handle;
  forged.owner = Owner::random();
  CHECK(lost(elsewhere()->renew(forged, 30s)));
  CHECK(elsewhere()->release(forged) == Released::was_not_held);
  CHECK(elsewhere()->release(handle) == Released::yes);
  CHECK(elsewhere()->release(handle) == Released::was_not_held);
}

TEST_CASE("other clients of the algorithm: excluded both ways, shown, waited for") {
  RedlockMasters m;
  auto backend = open_redlock(m.url(), patient());
  const Key k = key("shared name");
  const auto theirs = [&](std::size_t i) {
    return m.servers[i]->command(
        {"SET", "shared name", "0123456789abcdef0123", "NX", "PX", "600000"});
  };
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(theirs(i).text == "OK");
  auto waiter = *backend->enqueue(request(k, 300s));
  const auto p = answer_of(*waiter);
  REQUIRE((std::holds_alternative<Waiting>(p) && std::get<Waiting>(p).holder));
  CHECK(std::get<Waiting>(p).holder->id == "01234567");
  CHECK(std::get<Waiting>(p).holder->token == 0);
  for (std::size_t i = 3; i < 5; ++i)
    CHECK(eventually([&] { return m.value(i, "shared name").empty(); }));  // ours were released
  const auto seen = backend->inspect(k).value();
  REQUIRE(seen);
  CHECK(seen->holders.size() == 1);
  CHECK(seen->notes.front() == "3/5 nodes agree");
  const auto began = Clock::now();
  for (std::size_t i = 0; i < 3; ++i) m.servers[i]->command({"PEXPIRE", "shared name", "1500"});
  const Lease l = granted_within(*backend, request(k, 300s));
  CHECK(Clock::now() - began > 1300ms);
  REQUIRE(votes_of(m, "shared name", l.owner) >= 3);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 5; ++i) refused += theirs(i).is(Reply::Type::nil);
  CHECK(refused >= 3);  // so they have no majority
  // Their release compares the value, which is not theirs.
  CHECK(votes_of(m, "shared name", l.owner) >= 3);
  CHECK(backend->release(l) == Released::yes);
}

// NODE_MODULES is the directory of `npm install redlock ioredis`.
TEST_CASE("node-redlock and dlock exclude each other") {
  const char* modules = std::getenv("NODE_MODULES");
  if (!modules || !installed("node")) {
    WARN("not tested: NODE_MODULES is not set, or node is not installed");
    return;
  }
  RedlockMasters m;
  const auto backend = open_redlock(m.url(), patient());
  const auto status_of_theirs = [&](const char* name) {
    std::string ports;
    for (const auto& s : m.servers) ports += fmt::format("{},", s->port());
    const std::string script = fmt::format(
        "const M=require('{0}/redlock'),R=M.default||M,I=require('{0}/ioredis');"
        "const r=new R([{1}].map(p=>new I(p,'127.0.0.1')),{{retryCount:0}});"
        "(r.acquire||r.lock).call(r,['{2}'],5000).then(()=>process.exit(0),()=>process.exit(3))",
        modules, ports, name);
    return WEXITSTATUS(std::system(fmt::format("node -e \"{}\"", script).c_str()));
  };
  const Lease ours = granted_within(*backend, request(key("ours")));
  CHECK(status_of_theirs("ours") == 3);
  CHECK(status_of_theirs("theirs") == 0);
  Request impatient = request(key("theirs"));
  impatient.wait = false;
  CHECK(std::holds_alternative<Busy>(answer_of(*backend, impatient)));
  CHECK(backend->release(ours) == Released::yes);
}
