// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/clock.hpp"

namespace dlock::run {

// The program's own image in memory: the clean pages of the program and its libraries. While a job
// runs, dlock waits; nine tenths of what it and its guard held in memory were such pages.

// How long a job lives before either of them spends system calls on that.
inline constexpr Duration settled = std::chrono::milliseconds{50};

// Unmaps them; what is used later is mapped again, from the page cache or, if the kernel dropped it
// there, from the disk. So this is for dlock, whose lateness the guard makes up for, and never for
// the guard: on a disk that hangs it must be able to kill.
void let_go_of_image() noexcept;

// Keeps those that are mapped now, and every one that will be, in memory (mlock), as far as
// RLIMIT_MEMLOCK allows. For the guard, after it has rehearsed what it may have to do.
void keep_image() noexcept;

}  // namespace dlock::run
