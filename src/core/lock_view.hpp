// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "core/backend.hpp"
#include "core/lock_state.hpp"

namespace dlock {

// The view of a store that keeps a LockState. `now` on the store's clock; holders that have ended
// come last, and dead waiters are left out.
HolderView view(const LockState::Holder& holder, Micros now);
WaiterView view(const LockState::Waiter& waiter);
KeyView view(const LockState& state, std::string key, Micros now);
void ended_last(KeyView&);  // the others keep their order

}  // namespace dlock
