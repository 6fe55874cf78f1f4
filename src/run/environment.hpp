// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/sequencer.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// The variables that say what is held, for a job and for who evaluates what `acquire` prints. Of
// several leases the first.
using Variables = std::vector<std::pair<std::string_view, std::string>>;
Variables grant_variables(const Traits&, const Lease&, const Handle&, Duration ttl);

// The environment of the job (CLI: DLOCK_HELD and so on), in the format of the guard's start
// message: each entry ends with NUL, "NAME=value" sets, "NAME" removes. The leases in the order of
// the keys.
std::string job_environment(const Plan&, const std::vector<Lease>&, pid_t guard);

// Returns the ids of the runs around this one, from DLOCK_RUNS, without words that are not ids.
// Call it while there is one thread.
std::vector<std::string> runs_around();

// The guard's environment with those changes: pointers into both, with nullptr at the end.
std::vector<char*> changed_environment(std::string& changes);

}  // namespace dlock::run
