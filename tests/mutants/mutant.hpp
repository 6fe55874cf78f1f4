// SPDX-License-Identifier: Apache-2.0
// Included into every file of a build for `scripts/prove --mutants`, and of no other.
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

namespace dlock {

// Whether this fault is switched on, by DLOCK_TEST_MUTANT=NAME.
inline bool mutant(std::string_view name) {
  const char* chosen = std::getenv("DLOCK_TEST_MUTANT");
  return chosen && name == chosen;
}

// The same for a script of Redis, which asks `mutant == 'NAME'`; lua.patch puts the line that says
// so before each.
inline std::string mutated(std::string_view lua) {
  constexpr std::string_view none = "local mutant = ''";
  const char* chosen = std::getenv("DLOCK_TEST_MUTANT");
  std::string text{lua};
  const std::string name = chosen ? std::string{"'"} + chosen + "'" : "";
  if (chosen && *chosen && lua.find(name) != lua.npos)
    text.replace(text.find(none), none.size(), "local mutant = " + name);
  return text;
}

}  // namespace dlock
