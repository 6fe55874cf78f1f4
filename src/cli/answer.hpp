// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "cli/options/options.hpp"
#include "run/outcome.hpp"

namespace dlock::cli {

// --output json of renew, release and check, whose answer is otherwise the exit status: one object
// with the keys and "renewed", "released", "revoked" or "valid"; null: unknown, and "error" says
// why. Empty: another command, or nothing was asked (a usage or configuration error).
std::string json_of_answer(const Options&, const Result<run::Outcome>&);

}  // namespace dlock::cli
