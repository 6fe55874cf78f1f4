// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "bench/figures.hpp"
#include "bench/plan.hpp"

namespace dlock::bench {

// Measures every scenario on every target, `repeat` times, in turn: whatever changes on this machine meanwhile hits all of them alike. Call it before any
// thread exists; it leaves none behind. An Error: a prefix that is not empty (usage), a store that cannot be reached. What was put into
// the stores is removed, whatever happened. A signal ends it early: Report::signal. The first violation of exclusion ends it, too.
Result<Report> run(const Plan&);

}  // namespace dlock::bench
