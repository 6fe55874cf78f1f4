// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include "run/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// What to do with a grant that has no command.
struct GrantSink {
  std::function<std::string(const std::vector<Lease>&)> text;  // in the order of the keys
  std::function<bool(std::string_view)> print;                 // false: could not be printed
};

// Acquires the lock without a command and prints the grant once; if that fails the lock is released
// and the status is 125. Detached: then ends with 0. Attached (--hold): holds until stdin ends (0),
// a signal (that signal) or the loss of the lock (123).
Outcome take(const Plan&, const GrantSink&);

}  // namespace dlock::run
