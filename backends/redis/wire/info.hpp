// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace dlock::redis {

// The value of `field` in the reply to INFO; empty: not there.
std::string_view info_field(std::string_view info, std::string_view field) noexcept;
// 0: not there, or not a number
std::int64_t info_number(std::string_view info, std::string_view field) noexcept;
// major * 100 + minor; 0: not reported
unsigned info_version(std::string_view info) noexcept;

}  // namespace dlock::redis
