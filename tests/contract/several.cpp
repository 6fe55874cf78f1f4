// SPDX-License-Identifier: Apache-2.0
// Several keys taken together, on each recipe: which owners they use.
#include "store/several.hpp"
#include "contract/helpers.hpp"
#include "run/timing.hpp"

namespace dlock::contract {

CONTRACT_CASE(
    "several keys taken anew have another owner and a late release of the first attempt affects "
    "nothing") {
  const auto other = store.open({}), admin = store.open({});
  const Granted b = take(*other, request("b"));
  auto own = store.open({});
  Backend& inner = *own;
  const auto all = dlock::several(std::move(own), {key("a"), key("b")},
                                  dlock::run::renewals({.proven = 60s, .renew_every = 100ms}));
  const Request r = request("a");
  const auto place = all->enqueue(r).value();
  CHECK(std::holds_alternative<Waiting>(step(*place, 0s)));
  REQUIRE(admin->force_release(key("a"), std::nullopt).value() == Released::yes);
  // It notices at a renewal, releases what it has, and begins again.
  const auto noticed = [&] {
    const auto p = step(*place, 100ms);
    return std::holds_alternative<Waiting>(p) &&
           std::get<Waiting>(p).why.find("requested again") != std::string::npos;
  };
  REQUIRE(becomes(noticed));
  CHECK(other->release(b.lease).value() == Released::yes);
  const Granted granted = take(*place);
  REQUIRE(granted.more_leases.size() == 1);
  for (const Lease& l : {granted.lease, granted.more_leases[0]}) {
    CHECK(l.owner != r.owner);
    CHECK(inner.release(Lease{.key = l.key, .owner = r.owner, .token = l.token}).value() ==
          Released::was_not_held);
    CHECK(other->check(l.key, l.owner).value() == Validity::valid);
  }
  CHECK(all->release(granted.lease).value() == Released::yes);
}

}  // namespace dlock::contract
