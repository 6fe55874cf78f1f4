// SPDX-License-Identifier: Apache-2.0
// Looking at and signalling the processes below this one. All of it needs a readable /proc.
#pragma once
#include <sys/types.h>
#include <optional>
#include <vector>

namespace dlock::run {

// Direct children of `pid`, whichever of its threads they belong to. The kernel may skip entries while children die: an empty
// answer proves nothing, only waitpid's ECHILD does.
std::vector<pid_t> children_of(pid_t pid);

// Our own children; call it while there is one thread. nullopt: /proc does not list them here, so no orphan could be found.
std::optional<std::vector<pid_t>> own_children();

// All our descendants, parents before children. Same caveat.
std::vector<pid_t> descendants();

// Signals our descendants in `group` (0: all of them), each pinned by a pidfd, because a grandchild's pid may be recycled
// between look and kill.
void signal_descendants(pid_t group, int signal);

// Sends KILL to each of our own children but `spared` and answers whom it found. Safe without pidfds: our children's pids
// cannot be recycled before we reap them, and deeper members become ours as their parents die.
std::vector<pid_t> kill_children(const std::vector<pid_t>& spared);

}  // namespace dlock::run
