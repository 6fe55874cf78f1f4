// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's table of locks (/proc/locks), for display only: dlock decides nothing by it.
// The table shows only processes of our own pid namespace. For each lock it names the process that
// took the lock. That process may have ended while another process keeps the lock.
#pragma once
#include <sys/types.h>
#include <optional>
#include <string_view>
#include <vector>

namespace dlock::file {

struct FlockEntry {
  pid_t pid;
  bool exclusive;
};

// Returns the granted flock(2) locks on a file, in the order of /proc/locks. nullopt: the table
// cannot be read, or it is empty although we hold a lock, for example because /proc is masked.
std::optional<std::vector<FlockEntry>> flock_entries(dev_t device, ino_t inode);
// Returns the process of the first of these locks. nullopt: no process is known.
std::optional<pid_t> flock_holder(dev_t device, ino_t inode);

// Return what flock_entries() returns, but from the text of /proc/locks, or from the open file
// `table` with such a text, which is read to its end. nullopt: the file is empty.
std::vector<FlockEntry> parse_lock_table(std::string_view text, dev_t device, ino_t inode);
std::optional<std::vector<FlockEntry>> read_lock_table(int table, dev_t device, ino_t inode);

}  // namespace dlock::file
