// SPDX-License-Identifier: Apache-2.0
// inspect --doctor, for both recipes.
#pragma once
#include <vector>
#include "file/directory.hpp"
#include "store/backend.hpp"

namespace dlock::file {

// Judges the directory of the locks, and what around it decides whether locks last. `of_all_users`:
// all users may write to the directory, and the recipe is made for that.
std::vector<Finding> examine(const Directory&, bool flock, bool of_all_users);

}  // namespace dlock::file
