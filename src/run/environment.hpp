// SPDX-License-Identifier: Apache-2.0
// The environment variables that show a job its locks, among them DLOCK_GRANTS. dlock writes them
// for its job, and a dlock inside the job reads them. Nothing here can fail: unreadable values are
// left out. Only the main thread calls these functions.
#pragma once
#include <sys/types.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/sequencer.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// The variables that describe one lease, for a job or for a shell that evaluates the output of
// `acquire`.
using Variables = std::vector<std::pair<std::string_view, std::string>>;
Variables grant_variables(const Traits&, const Lease&, const Handle&, Duration ttl);

// Returns the changes to the job's environment in the format of the guard's start message. Each
// entry ends with NUL: "NAME=value" sets a variable, "NAME" removes it. The leases are in the order
// of the keys.
std::string job_environment(const Plan&, const std::vector<Lease>&, pid_t guard);

// Returns the grants in DLOCK_GRANTS that have an ancestor of this process as their guard. The
// caller must ask the store whether they are still in force. Unreadable and foreign entries are
// ignored: dlock is then an ordinary contender. Call it while there is only one thread.
std::vector<InheritedGrant> inherited_grants();

}  // namespace dlock::run
