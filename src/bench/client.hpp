// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "bench/arena.hpp"

namespace dlock::bench {

// One client: a thread with a Backend of its own, which takes and releases, or renews, until the arena is over. It leaves nothing held behind,
// as far as the store can be reached.
void work(Arena&, unsigned client);

// The key of this client, and every key that a scenario uses.
Key key_of(const Target&, Scenario, unsigned client, unsigned lease = 0);
std::vector<Key> keys_of(const Target&, Scenario, unsigned clients);

}  // namespace dlock::bench
