// SPDX-License-Identifier: Apache-2.0
// What several options say together.
#pragma once
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

// The only word of a command is its key, as if --key were before it; that of check is a sequencer,
// unless a token or a handle says what is checked. (The key of inspect may be a pattern, and stays
// Options::operand.) Part of parse().
Result<void> take_word_as_key(Options&);

// Rules about several options: contradictions and missing ones. Part of parse().
Result<void> check_rules(const Options&);

// Setter of --output. Errc::usage: no command has this form.
Result<void> set_output(Options&, std::string_view);

// After all sources were read: Options::output and its switches say the same. Errc::usage: on the
// command line they contradict each other, or the form is that of another command. A variable or
// file is shared by several commands, so there such a form is ignored.
Result<void> choose_output(Options&);

// Errc::usage if the command line chose `form` and one of these options.
Result<void> form_apart(const Options&, Output form, std::initializer_list<std::string_view>);

}  // namespace dlock::cli
