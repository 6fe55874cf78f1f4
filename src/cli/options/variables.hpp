// SPDX-License-Identifier: Apache-2.0
// DLOCK_ variables that belong to no option: a misspelt one must not lead to another store than
// intended. Exempt are those of dlock itself, of its tests, and those that Kubernetes sets for a
// service named dlock.
#pragma once
#include <string>
#include "cli/options/options.hpp"

namespace dlock::cli {

// Errc::config: a variable that was probably meant to be one of this verb's.
Result<void> refuse_misspelt_variables(Verb);

// "DLOCK_A, DLOCK_B": those that no verb reads. Empty: none.
std::string unknown_variables();

}  // namespace dlock::cli
