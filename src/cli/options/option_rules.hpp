// SPDX-License-Identifier: Apache-2.0
// What several options say together. Parts of parse(), but for the setter.
#pragma once
#include "cli/options/options.hpp"

namespace dlock::cli {

// The only word of a command is its key, as if --key were before it; that of check is a sequencer,
// unless a token or a handle says what is checked. (The key of inspect may be a pattern, and stays
// Options::operand.)
Result<void> word_as_key(Options&);

// Contradictions, and what is missing.
Result<void> check_rules(const Options&);

// Setter of --output. Errc::usage: no command has this form.
Result<void> set_output(Options&, std::string_view);

// After all sources were read: Options::output and its switches say the same. Errc::usage: on the
// command line they contradict each other, or the form is that of another command. A variable or
// file is shared by several commands, so there such a form is ignored.
Result<void> choose_output(Options&);

}  // namespace dlock::cli
