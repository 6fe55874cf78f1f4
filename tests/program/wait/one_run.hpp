// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <csignal>
#include <string>
#include <vector>
#include "support/dlock_run.hpp"
#include "support/server.hpp"
#include "support/stores.hpp"

namespace dlock::test {

inline constexpr double promised = 0.25;
inline constexpr double load = 1.0;  // allowance for a busy machine
inline bool broken = false;

inline void check(bool good, const std::string& what) {
  if (good) return;
  broken = true;
  fmt::print("BROKEN: {}\n", what);
}

inline const std::vector<std::string> job{"sleep", "1000"};

// A recipe on a store that can fall silent: its processes are stopped, so they accept connections
// and never answer.
struct Place {
  std::string name, url;
  Store& store;
};

void abandoned(const Place&);

}  // namespace dlock::test
