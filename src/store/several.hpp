// SPDX-License-Identifier: Apache-2.0
// Several keys acquired together, all or none: a Backend in front of another, whose one lock
// represents all keys.
//
// It acquires the keys one by one in byte order. The order is the same for every client, so clients
// cannot wait for each other in a circle. Meanwhile it renews the keys that it has. If it loses one
// of them, it releases all, and begins again with another owner (lease.hpp) when the store has
// confirmed all releases or their leases have expired. One attempt requests all keys under one
// owner. A recipe may choose another owner for a key, so each lease has the owner of its key. The
// lease that represents all is the lease of the first key given, with the earliest deadline of all.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "store/backend.hpp"

namespace dlock {

// Returns when to renew a lease that lasts until `deadline`.
using NextRenewal = std::function<Deadline(Deadline deadline, Deadline now)>;

// `keys`: at least two different keys, in the order given. enqueue() gets the first in its Request.
std::unique_ptr<Backend> several(std::unique_ptr<Backend>, std::vector<Key> keys, NextRenewal);

}  // namespace dlock
