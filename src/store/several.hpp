// SPDX-License-Identifier: Apache-2.0
// Several keys taken together, all or none: a Backend whose one lock represents all of them.
//
// They are taken one by one in byte order, the same for every client, so two such clients cannot
// wait for each other in a circle. Keys already taken are renewed meanwhile; when one of them is
// lost all are released, and it begins again with another owner (lease.hpp), after unanswered
// releases have been answered or have expired. All keys of one attempt are requested under one
// owner; a recipe may have drawn another for one of them, so each lease has the owner of its key.
// The lease that represents all is that of the first key given, with the earliest deadline of all.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "store/backend.hpp"

namespace dlock {

// When a lease that lasts until `deadline` is to be renewed, seen from now.
using NextRenewal = std::function<Deadline(Deadline deadline, Deadline now)>;

// `keys`: at least two, each once, in the order given; a Request names the first. Those that are
// taken are renewed while others are waited for.
std::unique_ptr<Backend> several(std::unique_ptr<Backend>, std::vector<Key> keys, NextRenewal);

}  // namespace dlock
