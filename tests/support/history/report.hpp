// SPDX-License-Identifier: Apache-2.0
// The result of a check, as markdown.
#pragma once
#include <string>
#include "history/invariants.hpp"

namespace dlock::history {

std::string markdown(const Verdict&);

}  // namespace dlock::history
