// SPDX-License-Identifier: Apache-2.0
// A Backend in front of another Backend. It acquires several keys together, all or none; its one
// lock represents all of them.
//
// It acquires the keys one by one in byte order. The order is the same for every client, so clients
// cannot wait for each other in a circle. Meanwhile it renews the keys that it already holds. If it
// loses one of them, it releases all. It begins again with another owner (lease.hpp) as soon as
// each key's release has been confirmed or its lease has expired. One attempt requests all keys
// under one owner. A recipe may choose another owner for a key, so each lease has the owner of its
// key. The lease that represents all is the lease of the first key given, with the earliest
// deadline of all.
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
