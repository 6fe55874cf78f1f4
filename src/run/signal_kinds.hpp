// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <csignal>

namespace dlock::run {

inline bool ends(int signal) noexcept { return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT || signal == SIGHUP; }
inline bool stops(int signal) noexcept { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }
inline bool ignored_by_default(int signal) noexcept {
  return signal == SIGCONT || signal == SIGWINCH || signal == SIGURG || signal == SIGCHLD;
}

}  // namespace dlock::run
