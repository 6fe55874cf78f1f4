// SPDX-License-Identifier: Apache-2.0
// inspect --doctor, for both recipes.
#pragma once
#include <vector>
#include "file/directory.hpp"
#include "store/backend.hpp"

namespace dlock::file {

// Judges the directory of the locks, and the things that these locks depend on: the directories
// above it, filesystem, free space, clock and permissions. `flock`: the recipe is flock.
// `of_all_users`: the recipe is flock, and all users may write to the directory.
std::vector<Finding> examine(const Directory&, bool flock, bool of_all_users);

}  // namespace dlock::file
