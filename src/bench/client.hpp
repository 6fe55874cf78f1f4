// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>
#include "bench/arena.hpp"
#include "bench/watch.hpp"

namespace dlock::bench {

// One client: a thread with its own Backend that acquires and releases, or renews, until the arena
// is over. It leaves no lock held, as far as the store can be reached.
void work(Arena&, unsigned client);

// The key of this client, and every key that a scenario uses.
Key key_of(const Target&, Scenario, unsigned client, unsigned lease = 0);
std::vector<Key> keys_of(const Target&, Scenario, unsigned clients);

inline constexpr unsigned crashes_per_round = 3;

// One crash: a forked holder is killed with -9 as soon as a waiter is queued; returns the time
// until the waiter is granted the lock. Call it while this process has no other thread and no open
// Backend, because it forks. nullopt: a signal came.
Result<std::optional<Nanoseconds>> crash_once(const Plan&, const Target&, Signals&, Figures&);

}  // namespace dlock::bench
