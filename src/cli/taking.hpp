// SPDX-License-Identifier: Apache-2.0
// Builds the Plan of run and acquire.
#pragma once
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "run/plan.hpp"

namespace dlock::cli {

// Fills in everything but the job. Errc::usage: the recipe does not support the request, or the
// times do not fit together.
Result<run::Plan> plan_taking(const Options&, const Store&);

// Fills in a Plan's job and output.
run::Plan plan_job(const Options&, Request);

}  // namespace dlock::cli
