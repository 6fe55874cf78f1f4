// SPDX-License-Identifier: Apache-2.0
// The form of a result on standard output: --output X, or --json and --csv alike.
#pragma once
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

// Setter of --output. Errc::usage: no command has this form.
Result<void> set_output(Options&, std::string_view);

// After all sources were read: Options::output and its switches say the same. Errc::usage: on the
// command line they contradict each other, or the form is that of another command. A variable or
// file is shared by several commands, so there such a form is ignored.
Result<void> choose_output(Options&);

// Errc::usage if the command line chose `form` and one of these options.
Result<void> form_apart(const Options&, Output form, std::initializer_list<std::string_view>);

}  // namespace dlock::cli
