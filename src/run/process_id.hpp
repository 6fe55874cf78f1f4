// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlock::run {

// A process, identified beyond the reuse of its pid.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since boot (proc(5), field 22)
  bool operator==(const ProcessId&) const = default;
};

struct ProcessStat {
  ProcessId id;
  pid_t parent = 0, group = 0, session = 0;
};
std::optional<ProcessStat> look_up(pid_t);  // nothing: no such process, or no /proc

bool is_ancestor(const ProcessId&);  // of this process

std::string proc_path(pid_t, std::string_view rest);  // of a file below /proc/<pid>

}  // namespace dlock::run
