// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }  // whatever the locale

}  // namespace dlock
