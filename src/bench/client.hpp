// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>
#include "bench/arena.hpp"
#include "bench/watch.hpp"

namespace dlock::bench {

// Runs one client: a thread with its own Backend that acquires and releases, or renews, until the
// arena is over. At its end it releases its locks, if it can reach the store.
void work(Arena&, unsigned client);

// key_of() returns the key of this client, keys_of() every key that a scenario uses.
Key key_of(const Target&, Scenario, unsigned client, unsigned lease = 0);
std::vector<Key> keys_of(const Target&, Scenario, unsigned clients);

inline constexpr unsigned crashes_per_round = 3;

// Runs one crash. It kills a forked holder with -9 as soon as a waiter is queued, and returns the
// time until the waiter gets the lock. It forks, so this process must have no other thread and no
// open Backend. nullopt: a signal came.
Result<std::optional<Nanoseconds>> crash_once(const Plan&, const Target&, Signals&, Figures&);

}  // namespace dlock::bench
