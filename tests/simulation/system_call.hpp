// SPDX-License-Identifier: Apache-2.0
// Who makes a system call that was led here, and how it is answered.
#pragma once
#include <cerrno>
#include "simulation/process.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

// nullptr: no simulated process; the call is real.
inline Process* caller() noexcept {
  const World* const world = World::current();
  return world ? world->active : nullptr;
}

// As the C library answers: -1, and errno.
template <class Number>
Number answer(Number n) noexcept {
  if (n >= 0) return n;
  errno = static_cast<int>(-n);
  return -1;
}

}  // namespace dlock::simulation
