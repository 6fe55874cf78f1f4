// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace dlock {

// ps(1) and pkill(1) -f read the title of a process from the memory of its arguments.
//
// main() calls remember_arguments() first, with the arguments as the kernel placed them, contiguous
// in memory.
void remember_arguments(int argc, char** argv) noexcept;

// Overwrites the arguments with the title, cut to their length. The caller must have copied the
// arguments that it still needs. Does nothing if remember_arguments() was not called.
void set_process_title(std::string_view title) noexcept;

}  // namespace dlock
