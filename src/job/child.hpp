// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>
#include <unistd.h>
#include <cstddef>
#include <string>
#include <vector>
#include "job/entry.hpp"

namespace dlock::run {

// A child of the guard, and all that it reads and writes until its exec, which may hang on a dead
// mount: so this stays for as long as the guard lives.
struct Child {
  struct How {
    char* const* environment;
    Entry::Signals signals;
    pid_t group;          // 0: one of its own
    int error_pipe = -1;  // gets the errno of an exec that failed; or -1
  };
  // As execvp(3): a first word without '/' is looked up in PATH, now. Or `file` is executed.
  Child(std::vector<std::string> words, const How&, const std::string& file = {});
  Child(const Child&) = delete;  // it points into itself

  alignas(16) std::byte stack[32768];  // touched at its upper end alone
  const How how;
  const pid_t guard = ::getpid();
  // What it tries, in this order; both end with nullptr.
  const char* const* files;
  char* const* words;
  // Of the shell that runs a file which is no program and has no #! line; the second word, the
  // file, is set by the child, which alone knows it.
  const char** script;

 private:
  const std::vector<std::string> text_, found_;
  std::vector<char*> words_;
  std::vector<const char*> files_, script_;
};

// Starts it, in the cgroup of that descriptor if there is one and it takes processes. -1 and errno
// if there is no process.
//
// The child shares the memory of the guard until its exec: no page table is copied, and none of the
// pages that the guard writes next. So the child calls no library and writes nothing but `Child`
// and `script`; and the guard, which does not wait for the exec, stays able to kill. On processors
// where this is not written, the child is a copy. Call it with every signal blocked.
//
// If a process dumps core, Linux before 5.16 ends all that share its memory: a child that the
// terminal's QUIT ends before its exec would take the guard with it. So the child is a copy there,
// too. (With PR_SET_DUMPABLE instead, a /proc mounted with hidepid would not show the guard to a
// nested dlock.)
pid_t start_child(Child&, int cgroup);

}  // namespace dlock::run
