// SPDX-License-Identifier: Apache-2.0
#include "contended.hpp"
#include "redlock_faults.hpp"

using namespace dlock::test;

TEST_CASE("six clients under random faults of masters: no overlap, tokens rise") {
  const unsigned seed = Catch::rngSeed();
  const Contention c = contend(400, 60s, seed);
  CAPTURE(seed, c.faults, c.errors, c.lost);
  CHECK(c.windows.size() >= 100);
  CHECK(c.overlaps == 0);
  CHECK(c.inversions == 0);
  CHECK(c.duplicates == 0);
  WARN(c.windows.size() << " grants, " << c.faults << " faults, " << c.errors << " errors, "
                        << c.lost << " leases lost, seed " << seed);
}
