// SPDX-License-Identifier: Apache-2.0
// The verbs. Each takes options checked by parse(), prints its result on stdout and returns how
// dlock ends. The caller prints an Error, which decides the exit status. Called on the main thread,
// before any other exists.
#pragma once
#include "cli/options/options.hpp"
#include "report/outcome.hpp"

namespace dlock::cli {

inline run::Outcome ended(int status) {
  run::Outcome o;
  o.value = status;
  return o;
}

Result<run::Outcome> command_run(const Options&);
Result<run::Outcome> command_acquire(const Options&);
Result<run::Outcome> command_renew(const Options&);
Result<run::Outcome> command_release(const Options&);
Result<run::Outcome> command_check(const Options&);
Result<run::Outcome> command_fence(const Options&);
Result<run::Outcome> command_inspect(const Options&);
Result<run::Outcome> command_bench(const Options&);
Result<run::Outcome> command_config(const Options&);

// The whole command line; argv[0] is dlock. Prints errors. The only function that main() calls.
run::Outcome command_line(int argc, char** argv);

}  // namespace dlock::cli
