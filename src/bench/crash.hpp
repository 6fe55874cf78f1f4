// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "bench/figures.hpp"
#include "bench/plan.hpp"
#include "bench/watch.hpp"

namespace dlock::bench {

inline constexpr unsigned crashes_per_round = 3;

// One crash: a forked holder is killed with -9 as soon as a waiter is queued; returns the time
// until the waiter is granted the lock. Call it while this process has no other thread and no open
// Backend, because it forks. nullopt: a signal came.
Result<std::optional<Nanoseconds>> crash_once(const Plan&, const Target&, Signals&, Figures&);

}  // namespace dlock::bench
