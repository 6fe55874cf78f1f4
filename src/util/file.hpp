// SPDX-License-Identifier: Apache-2.0
// Functions that write whole texts, check owners and modes of files, and open files that the user
// names. Any thread may call them, except home_directory(). Only write_all() may wait without a
// bound.
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

// Writes all of `text`, also to a non-blocking descriptor. May block for ever. Returns 0 or errno.
int write_all(int fd, std::string_view text) noexcept;

// The conditions for trusting the content of an open file.
struct Trust {
  mode_t forbidden;         // permissions that the file must not have, such as S_IWOTH
  bool regular = true;      // it must be a regular file; false: anything but a directory
  bool own_or_root = true;  // it must belong to the effective user or to root
  static constexpr mode_t others_any = S_IRWXG | S_IRWXO, others_write = S_IWGRP | S_IWOTH;
};
// Returns why the file is not trusted, as text to follow "NAME: "; empty: it is trusted.
std::string why_untrusted(int fd, const Trust&);
std::string why_untrusted(const struct stat&, const Trust&);

// Returns $HOME if it is an absolute path, else the effective user's home in the user database;
// empty: neither exists. Only one thread may call it at a time.
std::string home_directory();

// The functions from here on are for files that the user names. They do not wait for ever for the
// other end of a FIFO, and do not write through links of other users.

Fd open_to_read(const std::string& path);  // it does not wait for a writer; -1: errno says why

// How long the writer of a FIFO may take, from dlock's open to the end of the text.
constexpr Duration fifo_patience = std::chrono::seconds{10};

struct ReadLimits {
  std::size_t longest;
  bool first_line = false;  // only the first line, without its newline; do not wait for more
  Deadline until = no_deadline;
};
// nullopt: errno says why. EFBIG: the text is too long. ETIMEDOUT: no writer finished in time.
std::optional<std::string> read_text(int fd, const ReadLimits&);

// Opens a file for writing, and creates it if it is missing. `how`: O_APPEND or O_TRUNC. A FIFO
// without a reader is an error (ENXIO). It follows a symbolic link only if the link belongs to us
// or to root, like /dev/stderr: in a directory where others may write, another user's link could
// lead to a file of ours. -1: errno says why.
Fd open_to_write(const std::string& path, int how, mode_t mode);

// Checks a file that a library will open itself, so that the library's open(2) does not block for
// ever. Returns nullptr if the library may open it, else why not. A missing file is not reported,
// because the library reports it.
const char* why_unusable(const std::string& path, bool directory_too) noexcept;

}  // namespace dlock
