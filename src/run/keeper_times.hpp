// SPDX-License-Identifier: Apache-2.0
// How often the Keeper asks the store and reports.
#pragma once
#include "core/clock.hpp"

namespace dlock::run {

inline constexpr Duration first_look{500'000};  // after which the user is told that dlock waits
inline constexpr Duration redrawn_look = std::chrono::seconds{1};  // on a terminal
inline constexpr Duration quiet_look = std::chrono::minutes{10};
inline constexpr Duration first_retry{100'000}, last_retry = std::chrono::seconds{2};

inline Duration until(Deadline t) { return std::chrono::duration_cast<Duration>(t - Clock::now()); }

}  // namespace dlock::run
