// SPDX-License-Identifier: Apache-2.0
// Replies that are lost, and requests that arrive late: a proxy in front of the server knows them
// by the texts of the recipe.
#include "contract/helpers.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

// A client behind the proxy, whose server knows its scripts, and another client.
struct Far {
  Far(Store& store, const Settings& settings)
      : way(store.port()), near(store.open({})), far(store.open_at(way.port(), settings)) {
    const Lease lease = test::granted_within(*far->enqueue(request("k")).value());
    (void)test::renewed(*far, lease, 60s);
    if (!subject().messages.revocation.empty())
      (void)test::answered([&] { return far->revoke(key("k")); });
    (void)test::answered([&] { return far->release(lease); });
  }
  // The first answer behind which the reply was lost.
  template <class Call>
  auto lose(const std::string& text, bool quietly, Call call) {
    way.lose_reply(text, quietly);
    return test::call_until([&] { return way.lost_one(2s); }, call);
  }

  test::Proxy way;
  const std::unique_ptr<Backend> near, far;
};

// A loud loss is noticed, and the request repeated in time; a quiet one is none's answer.
Settings settings(bool quietly) { return quietly ? test::quick(700ms) : test::patient(); }

Request long_one() {
  Request r = request("k");
  r.ttl = 100s;
  return r;
}

}  // namespace

CONTRACT_CASE("lost reply: a grant is recognised when it is asked for again, and is the only one") {
  need(!subject().messages.grants.empty(), "a text of the request for a grant");
  for (const std::string& text : subject().messages.grants)
    for (const bool quietly : {false, true}) {
      CAPTURE(text, quietly);
      Far c{store, settings(quietly)};
      const Request r = long_one();
      auto w = c.far->enqueue(r).value();
      const auto first = c.lose(text, quietly, [&] { return w->poll(0s); });
      if (!first) CHECK(first.error().code == Errc::timed_out);
      const auto in_force = c.near->inspect(key("k")).value().value().holders;
      REQUIRE(in_force.size() == 1);
      const Lease lease = test::granted_within(*w);
      if (subject().traits->fifo) CHECK(lease.token == in_force[0].token);
      CHECK(c.near->check(key("k"), lease.token).value() == Validity::valid);
      const auto seen = c.near->inspect(key("k")).value().value();
      REQUIRE(seen.holders.size() == 1);
      CHECK(seen.waiters.empty());
      // The deadline counts from a request that proved the grant, not from the reply.
      CHECK(lease.deadline <= lease_end(Clock::now(), r.ttl));
      if (seen.holders[0].remaining)
        CHECK(*seen.holders[0].remaining >= lease.deadline - Clock::now());
      CHECK(test::answered([&] { return c.far->release(lease); }) == Released::yes);
      CHECK(free_now(*c.near, request("k")));
    }
}

CONTRACT_CASE("lost reply: a renewal without an answer is unknown, and the next one is kept") {
  need(!subject().messages.renewal.empty(), "a text of a renewal");
  for (const bool quietly : {false, true}) {
    CAPTURE(quietly);
    Far c{store, settings(quietly)};
    const Lease lease = test::granted_within(*c.far->enqueue(long_one()).value());
    const auto answer =
        c.lose(subject().messages.renewal, quietly, [&] { return c.far->renew(lease, 100s); });
    CHECK(answer.has_value() != quietly);
    if (!answer) CHECK(answer.error().code == Errc::timed_out);
    CHECK(std::holds_alternative<Kept>(test::renewed(*c.far, lease, 100s)));
    CHECK(test::answered([&] { return c.far->release(lease); }) == Released::yes);
  }
}

CONTRACT_CASE("lost reply: a release counts when it is repeated, and harms no later holder") {
  need(!subject().messages.release.empty(), "a text of a release");
  for (const bool quietly : {false, true}) {
    CAPTURE(quietly);
    Far c{store, settings(quietly)};
    const Lease lease = test::granted_within(*c.far->enqueue(long_one()).value());
    const auto release = [&] { return c.far->release(lease); };
    c.way.lose_reply(subject().messages.release, quietly);
    const auto first = release();
    REQUIRE(c.way.lost_one());
    // A session of ZooKeeper notices that a reply is missing, and asks again in time.
    if (subject().traits->liveness != Liveness::session) CHECK(first.has_value() != quietly);
    if (!quietly) CHECK(first);
    CHECK((first ? *first : test::answered(release)) == Released::yes);
    const Granted next = take(*c.near, request("k"));
    CHECK(test::answered(release) == Released::was_not_held);
    CHECK(c.near->check(key("k"), next.lease.token).value() == Validity::valid);
    c.near->release(next.lease).value();
  }
}

CONTRACT_CASE("late: a request to stop asks no later holder, and leaves nothing behind") {
  need(!subject().messages.revocation.empty(), "a text of a request to stop");
  Far c{store, test::quick(1s)};
  const Granted first = take(*c.near, long_one());
  c.way.hold(subject().messages.revocation);
  // unanswered, so whether it was carried out is unknown
  REQUIRE_FALSE(test::call_until([&] { return c.way.holds_one(2s); },
                                 [&] { return c.far->revoke(key("k")); }));
  c.near->release(first.lease).value();
  const Granted next = take(*c.near, long_one());
  c.way.let_go();
  REQUIRE(c.way.answered());
  const Renewal answer = c.near->renew(next.lease, 100s).value();
  REQUIRE(std::holds_alternative<Kept>(answer));
  CHECK_FALSE(std::get<Kept>(answer).revoked);
  CHECK_FALSE(c.near->inspect(key("k")).value()->holders.at(0).revoked);
  CHECK(list(*c.near).value().size() == 1);
  c.near->release(next.lease).value();
}
