// SPDX-License-Identifier: Apache-2.0
// Commands that dlock proposes, to be pasted into a shell.
#pragma once
#include <string>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

// `text` as one word of sh, of characters that are safe to print.
std::string sh_word(std::string_view text);

// The options of this command line, or of the environment, that say which store is meant and how it
// is reached, each with a space before it. No secret: of those only the names of files.
std::string store_options(const Options&);

}  // namespace dlock::cli
