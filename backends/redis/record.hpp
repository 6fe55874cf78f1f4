// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string_view>
#include "core/backend.hpp"
#include "core/lock_state.hpp"

namespace dlock::redis {

// The records of fair/state.lua. Nothing: not one of them. The owner is known to its first digits only, and is left empty.
struct HolderRecord : LockState::Holder {
  Micros granted = 0;
};
std::optional<HolderRecord> parse_holder(std::string_view record);       // mode|token|slot|since|deadline|delay|granted|meta
std::optional<LockState::Waiter> parse_waiter(std::string_view record);  // mode|limit|meta

HolderView view_of(const HolderRecord&, Micros now);

std::optional<Mode> parse_mode(std::string_view letter) noexcept;
std::optional<std::uint64_t> parse_unsigned(std::string_view digits) noexcept;

}  // namespace dlock::redis
