// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <unistd.h>
#include <cstddef>
#include <string>
#include <vector>
#include "job/entry.hpp"

namespace dlock::run {

// All that a child of the guard reads and writes until its exec. The exec may hang on a dead mount,
// so this object lives as long as the guard.
struct Child {
  struct How {
    char* const* environment;
    Entry::Signals signals;
    pid_t group;          // the child's process group; 0: a new group
    int error_pipe = -1;  // the child writes the errno of a failed exec here; -1: none
  };
  // If the first word has no '/', the constructor looks it up in PATH, as execvp(3) would do in the
  // child. With `file`, the child executes that file, whatever the first word is.
  Child(std::vector<std::string> words, const How&, const std::string& file = {});
  Child(const Child&) = delete;  // the object contains pointers into itself

  alignas(16) std::byte stack[32768];  // the child uses only the upper end
  const How how;
  const pid_t guard = ::getpid();
  const char* const* files;  // the files that the child tries, in this order; nullptr ends them
  char* const* words;        // the arguments of the child; nullptr ends them
  // The arguments of the shell, which the child executes for a file that is no program and has no
  // #! line. The child sets the second argument, because only the child knows which of `files` it
  // is executing.
  const char** script;

 private:
  const std::vector<std::string> text_, found_;
  std::vector<char*> words_;
  std::vector<const char*> files_, script_;
};

// Starts the child in `cgroup`, or outside of it if `cgroup` is -1 or accepts no processes. Returns
// -1 and sets errno if no process is available. Call it with every signal blocked. start_child()
// does not wait for the exec, so the guard stays able to kill.
//
// The child shares the memory of the guard until its exec. So the kernel copies no page table, and
// none of the pages that the guard writes next. The child calls no library, and writes only to
// `Child` and `script`. On processors other than x86-64 and AArch64, the child gets a copy of the
// memory.
//
// Before Linux 5.16 a process that dumps core ends all processes that share its memory. If the
// terminal sent QUIT to a child before its exec, the guard would end, too. So on these kernels the
// child also gets a copy. (PR_SET_DUMPABLE could prevent the core dump instead. But then a /proc
// that is mounted with hidepid would hide the guard from a nested dlock.)
pid_t start_child(Child&, int cgroup);

}  // namespace dlock::run
