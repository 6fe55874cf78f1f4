// SPDX-License-Identifier: Apache-2.0
// DLOCK_GRANTS and the other variables that show a job what is held. dlock writes them for its job,
// and a dlock inside of the job reads them.
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

// What the dlocks around this process hold, from DLOCK_GRANTS: only grants whose guard is an
// ancestor. The store must be asked whether they are still in force. Unreadable and foreign entries
// are ignored: this dlock is then an ordinary contender. Call it while there is one thread.
std::vector<InheritedGrant> inherited_grants();

}  // namespace dlock::run
