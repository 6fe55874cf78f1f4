// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace dlock::redis {

// A Lua script as the server knows it. Constant text: keys come in KEYS, data in ARGV, nothing is ever pasted in.
struct Script {
  std::string_view text;
  std::string_view sha;  // 40 lower-case hex digits, for EVALSHA
};

}  // namespace dlock::redis
