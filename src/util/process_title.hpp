// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace dlock {

// ps(1) and pkill(1) -f read the process title from the memory of the original arguments.
//
// Called first in main(). The arguments must be those from the kernel, contiguous in memory.
void remember_arguments(int argc, char** argv) noexcept;

// Overwrites the arguments: copy those still needed before. Truncated to their length. Does nothing
// if they were not remembered.
void set_process_title(std::string_view title) noexcept;

}  // namespace dlock
