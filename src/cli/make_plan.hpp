// SPDX-License-Identifier: Apache-2.0
// Builds the Plan of run and acquire.
#pragma once
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "run/plan.hpp"

namespace dlock::cli {

// What keeps the lock alive: this dlock, a keeper in the background, or nobody (only `dlock renew`
// extends the lease).
enum class Keeping { dlock, keeper, nobody };

// Makes a Plan. The caller adds what only `run` has: the command, the variables for the job, the
// grants of outer runs and --watch-pid. Errc::usage: the recipe does not support the request, or
// the times do not fit together.
Result<run::Plan> make_plan(const TakingOptions&, const Store&, Keeping);

// Fills in a Plan's job and output.
run::Plan plan_job(const TakingOptions&, Request);

}  // namespace dlock::cli
