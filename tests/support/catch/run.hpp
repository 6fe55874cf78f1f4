// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock::test {

// Catch2's command line and its tests; what main() returns: 0, or how many failed.
int run_catch(int argc, char** argv);

}  // namespace dlock::test
