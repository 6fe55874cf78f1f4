// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <string>
#include <vector>
#include "core/lease.hpp"
#include "run/entry.hpp"
#include "run/plan.hpp"

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

// The environment of the job (CLI: DLOCK_HELD and so on), in the format of the guard's start
// message: each entry ends with NUL, "NAME=value" sets, "NAME" removes. The leases in the order of
// the keys.
std::string job_environment(const Plan&, const std::vector<Lease>&, pid_t guard);

// The guard's environment with those changes: pointers into both, with nullptr at the end.
std::vector<char*> changed_environment(std::string& changes);

}  // namespace dlock::run
