// SPDX-License-Identifier: Apache-2.0
// The kernel's table of locks, for display. It shows only processes of our own pid namespace. It
// names the process that took a lock, which may have ended while another process keeps the lock. So
// dlock decides nothing by it.
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
// cannot be read, or does not even show our own lock, as where /proc is masked.
std::optional<std::vector<FlockEntry>> flock_entries(dev_t device, ino_t inode);
std::optional<pid_t> flock_holder(dev_t device, ino_t inode);

// The same from the text of /proc/locks, or from a file with such text, read to its end. nullopt:
// it is empty.
std::vector<FlockEntry> parse_lock_table(std::string_view text, dev_t device, ino_t inode);
std::optional<std::vector<FlockEntry>> read_lock_table(int table, dev_t device, ino_t inode);

}  // namespace dlock::file
