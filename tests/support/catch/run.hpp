// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace dlock::test {

// DLOCK_TEST_SEED, or a new one for each run; printed at the start. Catch::rngSeed() is its low
// half.
std::uint64_t seed();

// Catch2's command line and its tests; what main() returns: 0, or how many failed.
int run_catch(int argc, char** argv);

}  // namespace dlock::test
