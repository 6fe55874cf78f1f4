// SPDX-License-Identifier: Apache-2.0
// The result of a check, for people (markdown) and for programs (JSON).
#pragma once
#include <string>
#include "history/invariants.hpp"

namespace dlock::history {

std::string markdown(const Verdict&);
std::string json(const Verdict&);

}  // namespace dlock::history
