// SPDX-License-Identifier: Apache-2.0
// Other processes: which one a pid is, and those below this one. All of it needs a readable /proc.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"
#include "core/identity.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// A system call without which a run cannot be guarded, or ended: no job is started then.
struct FailedCall {
  const char* name = nullptr;  // null: all is well
  int error = 0;
  explicit operator bool() const noexcept { return name != nullptr; }
};
// Why, and what allows it.
std::string why(const FailedCall&);

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
std::optional<ProcessStat> process_stat(pid_t);  // nothing: no such process, or no /proc

// Adds to the identity of this process which one it is (Identity::process).
void identify(Identity&);
// Whether the process of an identity is seen here. unknown: it is of another host or namespace, or
// did not say which one it is.
enum class Presence { lives, ended, unknown };
Presence find_process(const Identity&);

bool is_ancestor(const ProcessId&);  // of this process

std::string proc_path(pid_t, std::string_view rest);  // of a file below /proc/<pid>
std::string read_start(const std::string& path);      // 4 KiB at most; empty: it cannot be read
// The names there of that type (DT_DIR...), except for those that begin with a dot.
std::vector<std::string> names_in(const std::string& path, unsigned char type);
std::uint64_t own_namespace(std::string_view kind);  // its inode, of "pid" or "net"; 0: unknown

// The pids in an open list of the kernel's, such as cgroup.procs, from its beginning.
void read_pids(int fd, std::vector<pid_t>& out);

// The children of this process: those of its first thread, which also adopts orphans. The list is
// opened once, so that reading it later needs no descriptor. The kernel may skip entries while
// children die: an empty list proves nothing, only waitpid's ECHILD does.
class OwnChildren {
 public:
  OwnChildren();  // call it in the process itself; a child opens its own
  std::vector<pid_t> list() const;
  int fd() const noexcept { return list_.get(); }
  // false: /proc does not list them here
  explicit operator bool() const noexcept { return static_cast<bool>(list_); }

 private:
  Fd list_;
};

// All descendants of `root` found until then, parents before children. Same caveat; needs
// descriptors.
std::vector<pid_t> descendants_of(pid_t root, Deadline until);

// Whether the process with this pid now is a descendant of ours.
bool is_descendant(pid_t);

// Signals our descendants in `group` (0: all of them), as far as it gets until then. A child's pid
// cannot be reused before we reap it; deeper processes are pinned by a pidfd and only then checked
// again, because the pid may have been reused since the walk. Out of descriptors, only the children
// are reached.
void signal_descendants(const OwnChildren&, pid_t group, int signal, Deadline until);

// Sends KILL to these children of ours. Needs no pidfd: deeper members become our children as their
// parents die.
void kill_children(const std::vector<pid_t>& children);

}  // namespace dlock::run
