// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace dlock {

// Both return `text` as one word for sh. sh_word() uses only characters that are safe to print.
std::string shell_quoted(std::string_view text);
std::string sh_word(std::string_view text);

}  // namespace dlock
