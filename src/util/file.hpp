// SPDX-License-Identifier: Apache-2.0
// Files: writing a whole text, whom to trust, those that the user names.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>
#include <optional>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "util/fd.hpp"

namespace dlock {

// Writes all of `text`, however little is taken at once; waits, without a bound, where the
// descriptor is non-blocking. 0, or errno.
int write_all(int fd, std::string_view text) noexcept;

// The conditions for trusting the content of an open file.
struct Trust {
  mode_t forbidden;         // forbidden permissions: S_IWOTH
  bool regular = true;      // false: anything but a directory, such as a FIFO
  bool own_or_root = true;  // belongs to the effective user or to root
  static constexpr mode_t others_any = S_IRWXG | S_IRWXO, others_write = S_IWGRP | S_IWOTH;
};
// Why the file is not trusted, to follow "NAME: "; empty: it is trusted.
std::string distrust(int fd, const Trust&);
std::string distrust(const struct stat&, const Trust&);

// $HOME if that is an absolute path, else the effective user's in the user database; empty:
// neither. Not for several threads at a time.
std::string home_directory();

// Files named by the user: no endless wait for the other end of a FIFO, no writing through links of
// other users.

Fd open_to_read(const std::string& path);  // does not wait for a writer; -1: errno

// How long a FIFO that is read as a file may wait for its writer, and the writer take.
constexpr Duration fifo_patience = std::chrono::seconds{10};

struct ReadLimits {
  std::size_t longest;
  bool first_line = false;  // without its newline; what follows is not waited for
  Deadline until = no_deadline;
};
// nullopt: errno says why; EFBIG: it is longer; ETIMEDOUT: no writer has finished in time.
std::optional<std::string> read_text(int fd, const ReadLimits&);

// `how`: O_APPEND or O_TRUNC. Created if missing. A FIFO without a reader is an error (ENXIO). A
// symbolic link is followed only if it is ours or root's, as /dev/stderr is: in a directory that
// others may write to, another user's link could lead to a file of ours. -1: errno.
Fd open_to_write(const std::string& path, int how, mode_t mode);

// For a file that a library will open by itself. nullptr: it may; else the reason why not: the open
// could block for ever. A missing file is left to the library's error.
const char* trouble_with_file(const std::string& path, bool directory_too) noexcept;

}  // namespace dlock
