// SPDX-License-Identifier: Apache-2.0
// Backends for locks that another process holds: its grant is checked, and left to it.
#pragma once
#include <climits>
#include <memory>
#include <string>
#include <vector>
#include "core/sequencer.hpp"
#include "store/backend.hpp"

namespace dlock {

// `run --handle`: "acquiring" checks by a renewal that the handle still holds the lock; releasing
// does nothing, because that is left to the process that acquired it. The owner of a request is
// ignored: the handle has the holder.
std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend>, Handle);

struct InheritedGrant {
  Lease lease;
  unsigned limit = UINT_MAX;  // permit
  std::string family, recipe;
  std::string place;  // where its lock is, as that dlock named it
  std::string text;   // of this grant in DLOCK_GRANTS
};

// A nested `dlock run` of a key that an ancestor holds: such a key is taken by asking the store
// whether the ancestor's handle is still in force. It has no deadline of its own: the ancestor
// renews, and its guard ends this whole tree in time. Other keys, those of another recipe, and one
// whose handle is stale, are acquired as usual.
std::unique_ptr<Backend> reentrant(std::unique_ptr<Backend>, std::vector<InheritedGrant>);

}  // namespace dlock
