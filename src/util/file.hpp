// SPDX-License-Identifier: Apache-2.0
// Shared by several parts: writing a whole text, whether to trust a file, the home directory.
#pragma once
#include <sys/stat.h>
#include <string>
#include <string_view>

namespace dlock {

// Writes all of `text`, however little is taken at once; waits, without a bound, where the
// descriptor is non-blocking. 0, or errno.
int write_all(int fd, std::string_view text) noexcept;

// The conditions for trusting the content of an open file.
struct Trust {
  mode_t forbidden;         // forbidden permissions: S_IWOTH; others_any for a secret
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

}  // namespace dlock
