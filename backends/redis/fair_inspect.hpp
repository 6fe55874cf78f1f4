// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include "core/backend.hpp"
#include "redis/fair_keys.hpp"
#include "redis/reply.hpp"

namespace dlock::redis {

inline constexpr std::size_t most_shown = 1000;  // holders, and waiters, of one key

// What the answer of fair/inspect.lua says to people. Nothing: the key was never heard of.
Result<std::optional<KeyView>> view_of(const FairKeys&, const Reply&);

}  // namespace dlock::redis
