// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <csignal>
#include "core/clock.hpp"

namespace dlock::run {

// timeout(1) signals its child and then its group, and means one signal: the same one within this
// time counts once.
inline constexpr Duration same_request = std::chrono::milliseconds{100};

inline bool ends(int signal) noexcept {
  return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT || signal == SIGHUP;
}
inline bool stops(int signal) noexcept {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}
inline bool ignored_by_default(int signal) noexcept {
  return signal == SIGCONT || signal == SIGWINCH || signal == SIGURG || signal == SIGCHLD;
}

}  // namespace dlock::run
