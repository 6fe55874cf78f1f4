// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "run/take.hpp"

namespace dlock::run {

// take(), and a separate process keeps the lock in the background, detached from everything
// inherited: until the process of `watch` (a pidfd; -1: none) has ended, `max_hold` is over, the
// lock is released or lost, or a signal comes. `socket`: the name that it listens on
// (keeper_socket.hpp); empty: none.
struct KeepFor {
  int watch = -1;
  Duration max_hold{};
  std::string socket;
};
Outcome keep(const Plan&, const GrantSink&, const KeepFor&);

}  // namespace dlock::run
