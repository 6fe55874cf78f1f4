// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "core/backend.hpp"
#include "core/lock_state.hpp"

namespace dlock {

// What a store that keeps a LockState shows to people. `now` on the store's clock; what time has ended is left out.
HolderView view(const LockState::Holder& holder, Micros now);
WaiterView view(const LockState::Waiter& waiter);
KeyView view(const LockState& state, std::string key, Micros now);

}  // namespace dlock
