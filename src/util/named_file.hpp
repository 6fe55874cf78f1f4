// SPDX-License-Identifier: Apache-2.0
// Files named by the user: no endless wait for the other end of a FIFO, no writing through links of
// other users.
#pragma once
#include <sys/types.h>
#include <optional>
#include <string>
#include "core/clock.hpp"
#include "util/fd.hpp"

namespace dlock {

Fd open_to_read(const std::string& path);  // does not wait for a writer; -1: errno

// How long a FIFO that is read as a file may wait for its writer, and the writer take.
constexpr Duration fifo_patience = std::chrono::seconds{10};

struct Reading {
  std::size_t longest;
  bool first_line = false;  // without its newline; what follows is not waited for
  Deadline until = no_deadline;
};
// nullopt: errno says why; EFBIG: it is longer; ETIMEDOUT: no writer has finished in time.
std::optional<std::string> read_text(int fd, const Reading&);

// `how`: O_APPEND or O_TRUNC. Created if missing. A FIFO without a reader is an error (ENXIO). A
// symbolic link is followed only if it is ours or root's, as /dev/stderr is: in a directory that
// others may write to, another user's link could lead to a file of ours. -1: errno.
Fd open_to_write(const std::string& path, int how, mode_t mode);

// For a file that a library will open by itself. nullptr: it may; else the reason why not: the open
// could block for ever. A missing file is left to the library's error.
const char* trouble_with_file(const std::string& path, bool directory_too) noexcept;

}  // namespace dlock
