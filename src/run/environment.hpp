// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include <vector>
#include "core/backend.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// What the job finds in its environment (CLI: DLOCK_HELD and so on), as the guard's start message wants it: each entry ends with
// NUL, "NAME=value" sets, "NAME" removes. The leases in the order of the keys.
std::string job_environment(const Plan&, const std::vector<Lease>&, pid_t guard);

// The handle of a lease of `traits` whose owner is all a store needs to know.
std::string handle_of(const Traits&, const Lease&);

}  // namespace dlock::run
