// SPDX-License-Identifier: Apache-2.0
// Backends for locks that another process holds: dlock checks the grant of that process, and does
// not release it. The Keeper puts these Backends in front of the store's Backend.
#pragma once
#include <sys/types.h>
#include <climits>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "core/sequencer.hpp"
#include "store/backend.hpp"

namespace dlock {

// `run --handle`: enqueue() renews the lock to check that the handle still holds it. release() does
// not release: the process that acquired the lock does. The owner of the Request is ignored,
// because the handle names the holder.
std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend>, Handle);

struct InheritedGrant {
  Lease lease;
  unsigned limit = UINT_MAX;  // for a permit
  std::string family, recipe;
  std::string place;  // where the lock is, in the words of the dlock that holds it
  std::string text;   // the JSON text of this grant in DLOCK_GRANTS
  // Returns the process of the dlock that holds the lock, or 0 if it is unknown. nullopt: the guard
  // of that dlock has ended, so nobody ends our tree when the lock is lost.
  std::function<std::optional<pid_t>()> dlock;
};

// A nested `dlock run` of a key that an ancestor holds. enqueue() asks the store whether the
// ancestor's grant is still in force. The lease has no deadline of its own: the ancestor renews the
// lease, and its guard ends this whole tree in time. The key is acquired as usual if no ancestor
// holds it, or if an ancestor holds it only by another recipe or with a stale grant.
std::unique_ptr<Backend> reentrant(std::unique_ptr<Backend>, std::vector<InheritedGrant>);

}  // namespace dlock
