// SPDX-License-Identifier: Apache-2.0
// Two faulty processes: dlock and its guard, each stopped or killed, in either order, on real
// stores.
#pragma once
#include "support/options.hpp"
#include "tree_run.hpp"

namespace dlock::test {

struct PairSetup {
  std::string mariadb;  // the directory of the server that ctest started; empty: none
  bool full = false;
  static PairSetup from_environment();  // before clean_environment()
};

// Prints a table; true when a member outlived the lock only where dlock-backends(7) says so.
bool kill_pairs(const Programs&, const Options&, const PairSetup&);

}  // namespace dlock::test
