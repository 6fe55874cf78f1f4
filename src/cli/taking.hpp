// SPDX-License-Identifier: Apache-2.0
// What run and acquire have in common.
#pragma once
#include "cli/options.hpp"
#include "cli/store.hpp"
#include "run/plan.hpp"

namespace dlock::cli {

enum class Hold { attached, kept, detached };  // detached: a lease that outlives this process; kept: one that a keeper renews

// Everything of a Plan but the job. Errc::usage when the recipe cannot do what is asked, or the times do not fit.
Result<run::Plan> plan_taking(const Options&, const Store&, Hold);

// Of a Plan without a lock: the job and what is said about it.
run::Plan plan_job(const Options&);

}  // namespace dlock::cli
