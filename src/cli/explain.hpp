// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "run/plan.hpp"

namespace dlock::cli {

// `run --explain`: what would happen when, and what the recipe guarantees and does not, on stdout.
// Opens the backend for its address, and sends it no request.
Result<void> explain(const Options&, const Store&, const run::Plan&);

}  // namespace dlock::cli
