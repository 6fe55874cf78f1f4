// SPDX-License-Identifier: Apache-2.0
#include "run/process_id.hpp"
#include <fcntl.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include "util/fd.hpp"

namespace dlock::run {

std::optional<ProcessStat> look_up(pid_t pid) noexcept {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return std::nullopt;
  text[n] = '\0';
  const char* after_name = std::strrchr(text, ')');  // the name may contain anything
  int parent = 0, group = 0;
  unsigned long long start = 0;
  if (!after_name ||
      std::sscanf(after_name + 1,
                  " %*c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &parent, &group, &start) != 3)
    return std::nullopt;
  return ProcessStat{{pid, start}, parent, group};
}

bool is_ancestor(const ProcessId& wanted) noexcept {
  for (pid_t pid = ::getppid(); pid > 0;) {
    const auto seen = look_up(pid);
    if (!seen) return false;
    if (pid == wanted.pid) return seen->id == wanted;
    pid = seen->parent;
  }
  return false;
}

}  // namespace dlock::run
