// SPDX-License-Identifier: Apache-2.0
// Two faulty processes: dlock and its guard, each stopped or killed, in either order, on a
// file and on Redis.
#pragma once
#include "support/options.hpp"
#include "tree_run.hpp"

namespace dlock::test {

// Prints a table; true when a member outlived the lock only where dlock-backends(7) says so.
bool kill_pairs(const Programs&, const Options&);

}  // namespace dlock::test
