// SPDX-License-Identifier: Apache-2.0
// For --doctor: what around a directory of locks decides whether they last.
#pragma once
#include <string>
#include <vector>
#include "core/backend.hpp"

namespace dlock::file {

// The way to `path` (absolute; it need not exist), and the clock by which leases end.
void judge_surroundings(const std::string& path, std::vector<Finding>&);

}  // namespace dlock::file
