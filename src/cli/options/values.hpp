// SPDX-License-Identifier: Apache-2.0
// Values of options, parsed strictly. Every error is Errc::usage and names the value and what is
// allowed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include "core/error.hpp"

namespace dlock::cli {

// Digits only, from `least` to `most`.
Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t least, std::uint64_t most);

// TERM, SIGTERM, 15, RTMIN, RTMIN+3, RTMAX-1.
Result<int> parse_signal(std::string_view text);

// The index of `text` among the words "a|b|c".
Result<std::size_t> parse_word(std::string_view text, std::string_view words);

// 1, true, yes, on; 0, false, no, off.
Result<bool> parse_switch(std::string_view text);

}  // namespace dlock::cli
