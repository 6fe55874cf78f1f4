// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "bench/arena.hpp"

namespace dlock::bench {

// One client: a thread with its own Backend that acquires and releases, or renews, until the arena
// is over. It leaves no lock held, as far as the store can be reached.
void work(Arena&, unsigned client);

// The key of this client, and every key that a scenario uses.
Key key_of(const Target&, Scenario, unsigned client, unsigned lease = 0);
std::vector<Key> keys_of(const Target&, Scenario, unsigned clients);

}  // namespace dlock::bench
