// SPDX-License-Identifier: Apache-2.0
// `acquire --output env` prints lines for `eval`. An empty text would be evaluated with success, so
// that a script went on without the lock: what is printed instead of a grant is `(exit N)`, N not 0.
#pragma once
#include "run/outcome.hpp"

namespace dlock::cli {

// Whether these words, or DLOCK_OUTPUT, ask for lines for eval. They need not be right; argv[1] is
// the verb, if they are.
bool asks_for_env(int argc, char** argv) noexcept;

// From now on the line is printed by a signal that ends this process, too, unless it is blocked.
void fail_closed_on_signals() noexcept;

// Prints the line if this is a failure. A reader that does not read has 200 ms.
void fail_closed(const run::Outcome&) noexcept;

}  // namespace dlock::cli
