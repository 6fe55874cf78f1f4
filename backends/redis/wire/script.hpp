// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include "core/clock.hpp"

namespace dlock::redis {

// A Lua script on the server. Constant text: keys are in KEYS, data in ARGV, nothing is ever
// inserted into the text.
struct Script {
  std::string_view text;
  std::string_view sha;  // 40 lower-case hex digits, for EVALSHA
};

// Time spans as arguments: whole microseconds, not negative; and for PX and PEXPIRE whole
// milliseconds, rounded up and never 0.
inline std::string micros(Duration d) {
  return std::to_string(std::max<Duration::rep>(0, d.count()));
}
inline std::string millis(Duration d) {
  return std::to_string(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
}

}  // namespace dlock::redis
