// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace dlock::run {

// A system call without which a run cannot be guarded, or ended: no job is started then.
struct FailedCall {
  std::string_view name{};  // empty: all is well
  int error = 0;
  explicit operator bool() const noexcept { return !name.empty(); }
};

// Why, and what allows it. At most dlock has three threads (the main one, the keeper, the writer of
// messages) and the guard two.
inline std::string why(const FailedCall& call) {
  if (call.error == EMFILE || call.error == ENFILE) return "out of descriptors (ulimit -n)";
  if (call.error == EAGAIN)
    return "too many processes and threads of this user (ulimit -u) or cgroup (pids.max); "
           "a run needs up to 6, the command among them";
  return std::string(call.name).append(": ").append(::strerrordesc_np(call.error));
}

}  // namespace dlock::run
