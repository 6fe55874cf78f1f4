// SPDX-License-Identifier: Apache-2.0
// The words of the command line, read by CLI11 from the rows of the option table.
#pragma once
#include "cli/options/options.hpp"

namespace dlock::cli {

// Each row given to CLI11 costs a comparison with every row before it, so it gets only those that
// the words can mean. A test gives it all of them: no name may occur twice.
enum class Rows { named, all };

// argv[0] is the verb. Options before the first `--` and, for run and fence, the command after it.
// Errc::usage for the first error. Does not reorder argv.
Result<void> read_arguments(Options&, int argc, char** argv, Rows = Rows::named);

std::string_view cli11_version() noexcept;

}  // namespace dlock::cli
