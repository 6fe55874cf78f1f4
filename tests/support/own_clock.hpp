// SPDX-License-Identifier: Apache-2.0
// The clocks of a program that tests/support/clock_shift.cpp is a part of, and of the servers that
// it starts with LD_PRELOAD.
#pragma once
#include <cstdlib>
#include "support/clock_file.hpp"

namespace dlock::test {

class OwnClock : public ClockFile {
 public:
  OwnClock() { ::setenv("CLOCK_SHIFT_FILE", path().c_str(), 1); }
};

// Constructed before main(), because the shim looks for it then.
inline OwnClock machine;

}  // namespace dlock::test
