// SPDX-License-Identifier: Apache-2.0
// The file that other programs lock with flock(2). It is theirs: dlock opens it for reading,
// creates it if missing, as flock(1) does, and never writes to it or removes it.
#pragma once
#include <string>
#include "core/lease.hpp"
#include "file/directory.hpp"

namespace dlock::file {

struct FlockFile {
  Fd fd{};  // -1: does not exist
  dev_t device = 0;
  ino_t inode = 0;
};

// The file `name` in the directory (not in its inner one). Errc::denied: a symbolic link, not a
// regular file.
Result<FlockFile> open_flock_file(const Directory& where, const std::string& name, bool make);

// Whether the path still leads to that file; a lock on a file that was deleted or replaced does not
// exclude.
Result<bool> in_place(const Directory& where, const std::string& name, const FlockFile& file);

// A mark that shows which grant a lock belongs to, and that ends with it: a shared OFD lock on one
// byte far behind the end of the file, at an offset computed from the token. It belongs to the same
// open file as the flock, so it lasts exactly as long, in any process; every process can query it
// without side effects (F_OFD_GETLK), across pid namespaces. Errc::unavailable: another process has
// the whole file locked with fcntl(2).
Result<void> set_mark(int fd, FencingToken token, std::string_view path);
void clear_mark(int fd, FencingToken token) noexcept;
bool marked(int fd, FencingToken token) noexcept;  // by another open file than `fd`

}  // namespace dlock::file
