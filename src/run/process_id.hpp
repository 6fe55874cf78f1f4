// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include "core/identity.hpp"

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

// Adds to the identity of this process which one it is (Identity::process).
void identify(Identity&);
// Whether the process of an identity is seen here. unknown: it is of another host or namespace, or
// did not say which one it is.
enum class Sighted { lives, ended, unknown };
Sighted look_for(const Identity&);

bool is_ancestor(const ProcessId&);  // of this process

std::string proc_path(pid_t, std::string_view rest);  // of a file below /proc/<pid>

}  // namespace dlock::run
