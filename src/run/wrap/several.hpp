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
#include <memory>
#include <vector>
#include "core/backend.hpp"

namespace dlock::run {

// The rest of a grant, which has the lease and the descriptors of all keys but the first.
struct OtherKeys {
  std::vector<Lease> leases;
  std::vector<int> holds;  // Granted::hold_fd, of all keys
};

// `keys`: at least two, each once, in the order given; a Request names the first. `others`: filled
// before a grant is answered; it outlives the Backend.
std::unique_ptr<Backend> several(std::unique_ptr<Backend>, std::vector<Key> keys,
                                 OtherKeys& others);

}  // namespace dlock::run
