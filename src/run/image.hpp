// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>
#include "core/clock.hpp"

namespace dlock::run {

// How long a job lives before dlock and guard spend system calls on what they hold in memory.
inline constexpr Duration settled = std::chrono::milliseconds{50};

// The program's own image in memory: the clean pages of the program and its libraries, constants
// that the loader made read-only (RELRO) among them. While a job
// runs, dlock waits; nine tenths of what it and its guard held in memory were such pages.
class Image {
 public:
  // Asks the dynamic loader, so before any thread exists that may load a library (a resolver's or a
  // client's): it may have the loader's lock for as long as a disk hangs. A Backstop loads none.
  Image();

  // Unmaps them; what is used later is mapped again, from the page cache or, if the kernel dropped
  // it there, from the disk, which may hang. So this is for dlock, whose lateness the guard makes
  // up for, and for a guard that has a Backstop. A page that was written stays; without
  // /proc/self/pagemap, which tells, all do.
  void let_go() const noexcept;

  // Maps all of them (Linux 5.14) and keeps them in memory, as far as RLIMIT_MEMLOCK allows: for a
  // guard without a Backstop.
  void keep() const noexcept;

 private:
  std::vector<std::span<std::byte>> segments_;
  std::span<std::byte> relro_;  // of the program; those of its libraries are small
};

}  // namespace dlock::run
