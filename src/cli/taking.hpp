// SPDX-License-Identifier: Apache-2.0
// What run and acquire share.
#pragma once
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "run/plan.hpp"

namespace dlock::cli {

// Everything of a Plan except the job. Errc::usage when the recipe does not support a request, or
// the times do not fit.
Result<run::Plan> plan_taking(const Options&, const Store&);

// Of a Plan, the job and its messages.
run::Plan plan_job(const Options&, Request);

}  // namespace dlock::cli
