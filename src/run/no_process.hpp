// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cerrno>
#include <cstring>
#include <string>

namespace dlock::run {

// Why fork(2) failed, and what allows it. At most dlock has three threads (the main one, the keeper,
// the writer of messages) and the guard two.
inline std::string why_no_process(int error) {
  if (error != EAGAIN) return ::strerrordesc_np(error);
  return "too many processes and threads of this user (ulimit -u) or cgroup (pids.max); "
         "a run needs up to 6, the command among them";
}

}  // namespace dlock::run
