// SPDX-License-Identifier: Apache-2.0
// The commands. Each function takes options that parse() has checked, prints its result on stdout
// and returns how dlock ends. If it returns an Error, the caller prints the Error, and the Error's
// code decides the exit status. All commands run on the main thread, before any other thread
// exists.
#pragma once
#include "cli/options/options.hpp"
#include "report/outcome.hpp"

namespace dlock::cli {

inline run::Outcome ended(int status) {
  run::Outcome o;
  o.value = status;
  return o;
}

Result<run::Outcome> command_run(const RunCommandOptions&);
Result<run::Outcome> command_acquire(const AcquireOptions&);
Result<run::Outcome> command_renew(const GrantOptions&);
Result<run::Outcome> command_release(const ReleaseOptions&);
Result<run::Outcome> command_check(const GrantOptions&);
Result<run::Outcome> command_fence(const FenceOptions&);
Result<run::Outcome> command_inspect(const InspectOptions&);
Result<run::Outcome> command_bench(const BenchOptions&);
Result<run::Outcome> command_config(const ConfigOptions&);

// Runs the whole command line (argv[0] is dlock) and prints errors. Only main() calls it.
run::Outcome command_line(int argc, char** argv);

}  // namespace dlock::cli
