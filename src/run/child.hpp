// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include "run/entry.hpp"
#include "run/program.hpp"

namespace dlock::run {

struct Child {
  const Program& program;
  char* const* environment;
  const Entry::Signals& signals;  // as dlock found them
  pid_t group;                    // 0: a group of its own
  int error_pipe;                 // gets the errno of an exec that failed; -1: no one asks
};

// Starts it, in the cgroup of that descriptor if there is one and it takes processes. -1 and errno
// if there is no process.
//
// The child shares the memory of the guard until its exec, so that no page table is copied and no
// page after it, two thirds of what the start of a child costs. So it runs on a stack of its own,
// calls no library and writes nothing but that stack; and the guard, which does not wait for the
// exec, stays able to kill. On processors where this is not written, the child is a copy.
// Call it with every signal blocked.
//
// If a process dumps core, Linux before 5.16 ends all that share its memory: a child that the
// terminal's QUIT ends before its exec would take the guard with it. So no core is dumped of either
// until child_has_left_us().
pid_t start_child(const Child&, int cgroup);
void child_has_left_us();  // call it after its exec

}  // namespace dlock::run
