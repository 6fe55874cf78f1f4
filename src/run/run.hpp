// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "run/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// Acquires the lock, runs the command, releases. Prints messages for the user on stderr. Call it
// before any thread exists, with the signal mask and dispositions that dlock was started with, and
// end with finish().
Outcome run(const Plan&);

}  // namespace dlock::run
