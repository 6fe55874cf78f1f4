// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include "run/entry.hpp"

namespace dlock::run {

// What a child of the guard is to become.
struct Child {
  const char* file;  // as execvp(3): without '/' it is looked up in PATH
  char* const* words;
  char* const* environment;
  const Entry::Signals& signals;
  pid_t group = 0;      // 0: a group of its own
  int error_pipe = -1;  // gets the errno of an exec that failed
};

// Starts it, in the cgroup of that descriptor if there is one and it takes processes. -1 and errno
// if there is no process. Does not wait for the exec, which may hang on a dead mount: the guard
// stays able to kill. Call it with every signal blocked: those sent since arrive in the child, none
// is lost.
pid_t start_child(const Child&, int cgroup);

}  // namespace dlock::run
