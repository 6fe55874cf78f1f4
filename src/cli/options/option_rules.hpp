// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cli/options/options.hpp"

namespace dlock::cli {

// The only word of a command is its key, as if --key were before it; that of check is a sequencer,
// unless a token or a handle says what is checked. (The key of inspect may be a pattern, and stays
// Options::operand.) Part of parse().
Result<void> take_word_as_key(Options&);

// Rules about several options: contradictions and missing ones. Part of parse().
Result<void> check_rules(const Options&);

}  // namespace dlock::cli
