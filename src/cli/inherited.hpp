// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>
#include "cli/store.hpp"
#include "run/wrap/held_elsewhere.hpp"

namespace dlock::cli {

// What the dlocks around this process hold, from DLOCK_GRANTS: only grants whose guard is an
// ancestor. The store must be asked whether they are still in force. Unreadable and foreign entries
// are ignored: this dlock is then an ordinary contender.
struct Inherited {
  std::vector<run::InheritedGrant> grants;         // of this family and recipe
  std::vector<std::pair<Key, std::string>> texts;  // all of them, unchanged, for nested dlocks
  std::string elsewhere;  // a warning if one of them is on another backend; empty: none is
};
Inherited find_inherited(const Store&);

}  // namespace dlock::cli
