// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock {

// `30`, `.5`, `500ms`, `90s`, `5m`, `1h30m`, `1.5h`, `2d`, `1w`: a bare number is seconds; units ms
// s m h d w in lower case, decimals with any of them, compounds without spaces. Anything else, a
// negative one, an exponent and more than 100 years (36525 days) are Errc::usage; the message names
// the text and what is allowed. Each number is rounded to the nearest microsecond, but never to
// zero unless it is zero.
Result<Duration> parse_duration(std::string_view text);

// For people: "250us", "480ms", "1.5s", "31m04s", "2h05m", "3d04h"; a last part of zero is left out
// ("1h"). Truncated, not rounded: never more than the value. Never longer than 8 characters below
// 1000 days.
std::string format_duration(Duration d);

// The same, rounded up: for a limit that a user may type, as parse_duration gives no less.
std::string format_duration_up(Duration d);

// Truncated.
constexpr std::int64_t whole_milliseconds(Duration d) noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace dlock
