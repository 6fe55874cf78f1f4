// SPDX-License-Identifier: Apache-2.0
// Where the parts of a state file are: the slots at 0 and 1 MiB, the tail behind them. The file is
// sparse, unused space costs nothing.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock::file {

inline constexpr off_t slot_size = 1 << 20;
inline constexpr off_t tail_at = 2 * slot_size;

// As pread(2) and pwrite(2), again after a signal.
ssize_t pread_all(int fd, char* to, std::size_t size, off_t at) noexcept;
ssize_t pwrite_all(int fd, std::string_view text, off_t at) noexcept;

// Whether a file may become so large (ulimit -f).
Result<void> fits_under_limit(const std::string& path, std::uint64_t needed);

}  // namespace dlock::file
