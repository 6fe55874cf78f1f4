// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cli/options/options.hpp"

namespace dlock::cli {

// Rules about several options: contradictions and missing ones. Part of parse().
Result<void> check_rules(const Options&);

}  // namespace dlock::cli
