// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include "faults.hpp"

namespace dlock::test {

// Two clients of one database, of which one is behind a proxy.
struct Scene {
  Db db{server()};
  Proxy proxy{server().port()};
  std::unique_ptr<Backend> late, other;

  explicit Scene(Duration op_timeout = 700ms, int grants = 1) {
    other = open_recipe(db.url(), patient());
    warm_up(*other, 1);
    late = open_recipe(through(proxy, db), quick(op_timeout));
    warm_up(*late, grants);
  }
  // What was held back arrives, and has its effect.
  void arrives() {
    proxy.let_go();
    REQUIRE(proxy.answered());
  }
  void check_holds(const Lease& lease) const {
    CHECK(kept(other->renew(lease, 60s)));
    CHECK(other->check(key("k"), lease.token).value() == Validity::valid);
    const auto seen = other->inspect(key("k")).value().value();
    CHECK(seen.holders.size() == 1);
    CHECK(seen.fence == lease.token);
  }
};

}  // namespace dlock::test
