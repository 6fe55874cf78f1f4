// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include "core/backend.hpp"
#include "redis/fair/fair_keys.hpp"
#include "redis/wire/reply.hpp"

namespace dlock::redis {

inline constexpr std::size_t most_shown = 1000;  // holders, and waiters, of one key

// The reply of fair/inspect.lua as a view. Nothing: the key is unknown.
Result<std::optional<KeyView>> view_of(const FairKeys&, const Reply&);

}  // namespace dlock::redis
