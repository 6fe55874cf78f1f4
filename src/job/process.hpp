// SPDX-License-Identifier: Apache-2.0
// Other processes: which process a pid means, and the descendants of this process. All functions
// need a readable /proc, and any thread may call them. They never block for long: if a walk may
// grow, the caller gives a bound.
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

// A system call that a run depends on and that failed; dlock then starts no job.
struct FailedCall {
  const char* name = nullptr;  // null: no call failed
  int error = 0;
  explicit operator bool() const noexcept { return name != nullptr; }
};
// Returns a message: why the call failed, and what would allow it.
std::string why(const FailedCall&);

// Identifies a process even if its pid is reused.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since boot (proc(5), field 22)
  bool operator==(const ProcessId&) const = default;
};

struct ProcessStat {
  ProcessId id;
  pid_t parent = 0, group = 0, session = 0;
};
std::optional<ProcessStat> process_stat(pid_t);  // nullopt: there is no such process, or no /proc

// Sets Identity::pid and Identity::process, which identify this process exactly.
void identify(Identity&);
// Returns whether the process of an identity lives. unknown: the process is on another host or in
// another PID namespace, /proc hides it, or the identity does not identify a process.
enum class Presence { lives, ended, unknown };
Presence find_process(const Identity&);

bool is_ancestor(const ProcessId&);  // an ancestor of this process
// Returns the parent; 0: unknown. nullopt: the process has ended, and its parent has reaped it.
std::optional<pid_t> parent_of(const ProcessId&);

std::string proc_path(pid_t, std::string_view rest);  // the path of a file below /proc/<pid>
// Returns the first 4 KiB of a file; empty: it cannot be read.
std::string read_beginning(const std::string& path);
// Returns the entries of a directory that have this type (DT_DIR...) and no leading dot.
std::vector<std::string> names_in(const std::string& path, unsigned char type);
// Returns the inode number of our namespace; `kind` is "pid" or "net". 0: unknown.
std::uint64_t own_namespace(std::string_view kind);

// Reads all pids of an open list of the kernel, such as cgroup.procs.
void read_pids(int fd, std::vector<pid_t>& out);

// The children of this process's first thread, which also inherits orphans. The constructor opens
// the list, so that reading it later needs no free descriptor. The kernel may skip entries while
// children die, so an empty list proves nothing. Only ECHILD from waitpid proves that there are no
// children.
class OwnChildren {
 public:
  OwnChildren();  // opens the list of the calling process; after a fork the child opens its own
  std::vector<pid_t> list() const;
  int fd() const noexcept { return list_.get(); }
  // false: /proc does not list our children here
  explicit operator bool() const noexcept { return static_cast<bool>(list_); }

 private:
  Fd list_;
};

// Returns the descendants of `root`, parents before children, as many as it finds before `until`.
// The kernel may skip some of them, as in OwnChildren. The walk needs free descriptors.
std::vector<pid_t> descendants_of(pid_t root, Deadline until);

// Returns whether the process that has this pid now is a descendant of ours.
bool is_descendant(pid_t);

// Signals our descendants in `group` (0: all of them), as many as the time allows. A child's pid
// cannot be reused before we reap the child. The pid of a deeper process may have been reused since
// the walk. So a pidfd pins that process, and the function checks again whether it is our
// descendant. Without free descriptors only the children get the signal.
void signal_descendants(const OwnChildren&, pid_t group, int signal, Deadline until);

// Sends KILL to these children of ours, without a pidfd, as a child's pid is not reused before we
// reap the child. Deeper members become our children when their parents die.
void kill_children(const std::vector<pid_t>& children);

}  // namespace dlock::run
