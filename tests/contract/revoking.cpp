// SPDX-License-Identifier: Apache-2.0
// A holder is asked to stop (release --revoke): the mark belongs to the grants that were in force.
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

bool revoked(const Result<Renewal>& r) { return std::get<Kept>(r.value()).revoked; }

HolderView holder_of(Backend& b) {
  const auto seen = b.inspect(key("k")).value().value();
  REQUIRE(seen.holders.size() == 1);
  return seen.holders[0];
}

}  // namespace

CONTRACT_CASE("revoke: the holder is told with its next renewal, and goes on holding") {
  need(subject().traits->revokes, "that a holder can be asked to stop");
  const auto holder = store.open({}), admin = store.open({});
  CHECK(admin->revoke(key("k")).value() == Released::was_not_held);
  const Granted g = take(*holder, request("k"));
  CHECK_FALSE(revoked(holder->renew(g.lease, 60s)));
  CHECK_FALSE(holder_of(*admin).revoked);
  CHECK(admin->revoke(key("k")).value() == Released::yes);
  CHECK(admin->revoke(key("k")).value() == Released::yes);
  CHECK(becomes([&] { return revoked(holder->renew(g.lease, 60s)); }));
  CHECK(revoked(holder->renew(g.lease, 60s)));
  CHECK(holder_of(*admin).revoked);
  CHECK(admin->check(key("k"), g.lease.token).value() == Validity::valid);
  CHECK_FALSE(free_now(*admin, request("k")));
  CHECK(holder->release(g.lease).value() == Released::yes);
  CHECK(admin->revoke(key("k")).value() == Released::was_not_held);
}

CONTRACT_CASE("revoke: the mark ends with the grant, however that ended") {
  need(subject().traits->revokes, "that a holder can be asked to stop");
  const auto holder = store.open({}), admin = store.open({});
  Granted g = take(*holder, request("k"));
  for (const bool forced : {false, true, false}) {
    REQUIRE(admin->revoke(key("k")).value() == Released::yes);
    auto next = in_queue(*admin, request("k"));
    if (forced) (void)holder->force_release(key("k"), g.lease.token).value();
    else CHECK(holder->release(g.lease).value() == Released::yes);
    if (forced) (void)holder->release(g.lease).value();
    g = take(*next);
    CHECK_FALSE(revoked(admin->renew(g.lease, 60s)));
    CHECK_FALSE(holder_of(*admin).revoked);
    CHECK(admin->release(g.lease).value() == Released::yes);
    g = take(*holder, request("k"));
    CHECK_FALSE(revoked(holder->renew(g.lease, 60s)));
  }
  CHECK(holder->release(g.lease).value() == Released::yes);
}

CONTRACT_CASE("revoke: all that hold together are asked, a later one is not") {
  need(subject().traits->revokes && subject().traits->shared,
       "that holders of a shared lock can be asked to stop");
  const auto one = store.open({}), two = store.open({}), three = store.open({});
  const Granted a = take(*one, request("k", Mode::shared));
  const Granted b = take(*two, request("k", Mode::shared));
  REQUIRE(three->revoke(key("k")).value() == Released::yes);
  const Granted c = take(*three, request("k", Mode::shared));
  CHECK(becomes([&] { return revoked(one->renew(a.lease, 60s)); }));
  CHECK(two->release(b.lease).value() == Released::yes);  // the newest of those asked
  CHECK(revoked(one->renew(a.lease, 60s)));
  CHECK_FALSE(revoked(three->renew(c.lease, 60s)));
  CHECK(one->release(a.lease).value() == Released::yes);
  CHECK_FALSE(revoked(three->renew(c.lease, 60s)));
  CHECK(three->release(c.lease).value() == Released::yes);
}

CONTRACT_CASE("revoke: what is known of the holder stays, and it counts as one") {
  need(subject().traits->revokes, "that a holder can be asked to stop");
  const auto holder = store.open({}), admin = store.open({});
  for (const Mode mode : {Mode::exclusive, Mode::permit}) {
    const Request r = request("k", mode, mode == Mode::permit ? 2 : UINT_MAX);
    if (!can_serve(*subject().traits, r)) continue;
    const Granted g = take(*holder, r);
    const HolderView before = holder_of(*admin);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(admin->revoke(key("k")).value() == Released::yes);
      const HolderView after = holder_of(*admin);
      CHECK(after.revoked);
      CHECK(after.id == before.id);
      CHECK(after.who.text() == before.who.text());
      CHECK(admin->check(key("k"), g.lease.token).value() == Validity::valid);
    }
    CHECK(admin->force_release(key("k"), g.lease.token).value() == Released::yes);
    (void)holder->release(g.lease);
  }
}
