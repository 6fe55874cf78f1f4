// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace dlock {

// `text` as one word of sh; sh_word: of characters that are safe to print.
std::string shell_quoted(std::string_view text);
std::string sh_word(std::string_view text);

}  // namespace dlock
