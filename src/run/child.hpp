// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <unistd.h>
#include <cstddef>
#include "run/entry.hpp"
#include "run/program.hpp"

namespace dlock::run {

// All that a child of the guard reads and writes until its exec: it stays as long as that may hang.
struct Child {
  Child(const Program& p, char* const* variables, const Entry::Signals& found, pid_t group_to_join,
        int pipe_for_errno)
      : files(p.files()),
        script(p.script()),
        words(p.words()),
        environment(variables),
        signals(found),
        group(group_to_join),
        error_pipe(pipe_for_errno) {}

  alignas(16) std::byte stack[32768];  // touched at its upper end alone
  const char* const* const files;
  const char** const script;
  char* const* const words;
  char* const* const environment;
  const Entry::Signals signals;
  const pid_t guard = ::getpid(), group;  // 0: a group of its own
  const int error_pipe;                   // gets the errno of an exec that failed; or -1
};

// Starts it, in the cgroup of that descriptor if there is one and it takes processes. -1 and errno
// if there is no process.
//
// The child shares the memory of the guard until its exec: no page table is copied, and none of the
// pages that the guard writes next. So the child calls no library and writes nothing but `Child` and
// `script`; and the guard, which does not wait for the exec, stays able to kill. On processors where
// this is not written, the child is a copy. Call it with every signal blocked.
//
// If a process dumps core, Linux before 5.16 ends all that share its memory: a child that the
// terminal's QUIT ends before its exec would take the guard with it. So the child is a copy there,
// too. (With PR_SET_DUMPABLE instead, a /proc mounted with hidepid would not show the guard to a
// nested dlock.)
pid_t start_child(Child&, int cgroup);

}  // namespace dlock::run
