// SPDX-License-Identifier: Apache-2.0
// The error for an option that the verb does not have: its verbs, or the probable one.
#pragma once
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

Error unknown_long(Verb, std::string_view name);  // without the dashes
Error unknown_letter(Verb, char letter);

// `-key` for `--key`: the letters of a long name are not taken as options.
bool is_long_with_one_dash(Verb, std::string_view word) noexcept;
Error long_with_one_dash(Verb, std::string_view word);

}  // namespace dlock::cli
