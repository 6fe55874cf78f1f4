// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace dlock::redis {

// The value of `field` in the answer to INFO; empty: not there.
std::string_view info_field(std::string_view info, std::string_view field) noexcept;
std::int64_t info_number(std::string_view info, std::string_view field) noexcept;  // 0: not there, or no number
unsigned info_version(std::string_view info) noexcept;                             // major * 100 + minor; 0: it did not say

}  // namespace dlock::redis
