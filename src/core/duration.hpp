// SPDX-License-Identifier: Apache-2.0
// Durations as text. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock {

// Parses `30`, `.5`, `500ms`, `90s`, `5m`, `1h30m`, `1.5h`, `2d`, `1w`. A bare number is seconds.
// The units are us ms s m h d w in lower case, and a number may have decimals. A compound has no
// spaces. Everything else is Errc::usage, including a negative number, an exponent and more than
// 100 years (36525 days). The message names the text and what is allowed. Each number is rounded to
// the nearest microsecond, but a number above zero never becomes zero.
Result<Duration> parse_duration(std::string_view text);

// Formats for people: "250us", "480ms", "1.5s", "31m04s", "2h05m", "3d04h". A last part of zero is
// left out ("1h"). It truncates, so the text never shows more than the value. Below 1000 days the
// text has at most 8 characters.
std::string format_duration(Duration d);

// Does the same, but rounds up. It is for a lower limit in a message: a user may type the limit as
// it is shown, and that value must not be too small.
std::string format_duration_up(Duration d);

// Rounds towards zero. `d` may be negative, as the remaining time of a lease that has ended is
// (inspect).
constexpr std::int64_t whole_milliseconds(Duration d) noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace dlock
