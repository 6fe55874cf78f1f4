// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/backend.hpp"
#include "core/lock_state.hpp"

namespace dlock::redis {

// Holders and waiters as the scripts of fair/ return them. Nothing: malformed. Only the first
// digits of the owner are known: `id`.
struct HolderRecord : LockState::Holder {
  std::string id;
  Micros granted = 0;
};
struct WaiterRecord : LockState::Waiter {
  std::string id;
};
// token|id|deadline|since|mode|slot|delay|granted|meta
std::optional<HolderRecord> parse_holder(std::string_view record);
std::optional<WaiterRecord> parse_waiter(std::string_view record);  // id|mode|limit|meta

HolderView view_of(const HolderRecord&, Micros now);

}  // namespace dlock::redis
