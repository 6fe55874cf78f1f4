// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>
#include "cli/store.hpp"
#include "run/reentrant.hpp"

namespace dlock::cli {

// What the dlocks around this process hold, from DLOCK_GRANTS: only what a guard that is an ancestor stands behind. Whether it is still in
// force the store has to say. What cannot be read, or comes from elsewhere, is nothing: this dlock is then an ordinary contender.
struct Inherited {
  std::vector<run::InheritedGrant> grants;         // of this family and recipe
  std::vector<std::pair<Key, std::string>> texts;  // all of them, as they were, for those further down
};
Inherited find_inherited(const Store&);

}  // namespace dlock::cli
