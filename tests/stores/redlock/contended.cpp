// SPDX-License-Identifier: Apache-2.0
#include "masters_contended.hpp"
#include "redlock_faults.hpp"

using namespace dlock::test;

TEST_CASE("six clients under random faults of masters: no overlap, tokens rise") {
  const unsigned seed = Catch::rngSeed();
  const Contended c = contend(400, 60s, seed);
  CAPTURE(seed, c.faults, c.errors, c.lost);
  CHECK(c.grants >= 100);
  CHECK(c.violations == "");
  WARN(c.grants << " grants, " << c.faults << " faults, " << c.errors << " errors, " << c.lost
                << " leases lost, seed " << seed);
}
