// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "bench/figures.hpp"
#include "bench/plan.hpp"

namespace dlock::bench {

// Measures every scenario on every target, `repeat` times, alternating, so that changes of this
// machine's speed affect all alike. Call it before any thread exists; it leaves none behind. An
// Error: a prefix that is not empty (usage), a store that cannot be reached. Everything written to
// the stores is removed in every case. A signal ends it early: Report::signal. The first violation
// of exclusion ends it, too.
Result<Report> run(const Plan&);

}  // namespace dlock::bench
