// SPDX-License-Identifier: Apache-2.0
// Backends for locks that another process holds: dlock checks the grant of that process, and does
// not release it. The Keeper puts them in front of the store's Backend.
#pragma once
#include <climits>
#include <memory>
#include <string>
#include <vector>
#include "core/sequencer.hpp"
#include "store/backend.hpp"

namespace dlock {

// `run --handle`: to acquire, it renews the lock to check that the handle still holds it. To
// release, it does nothing: the process that acquired the lock releases it. It ignores the owner of
// a request, because the handle names the holder.
std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend>, Handle);

struct InheritedGrant {
  Lease lease;
  unsigned limit = UINT_MAX;  // permit
  std::string family, recipe;
  std::string place;  // where its lock is, as the dlock that holds it names the place
  std::string text;   // the JSON text of this grant in DLOCK_GRANTS
};

// A nested `dlock run` of a key that an ancestor holds: to acquire, it asks the store whether the
// ancestor's grant is still in force. The lease has no deadline of its own: the ancestor renews it,
// and its guard ends this whole tree in time. A key that no ancestor holds, or by another recipe,
// or by a stale grant, is acquired as usual.
std::unique_ptr<Backend> reentrant(std::unique_ptr<Backend>, std::vector<InheritedGrant>);

}  // namespace dlock
