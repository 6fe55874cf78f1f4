// SPDX-License-Identifier: Apache-2.0
// The file that other programs lock with flock(2). It belongs to them: dlock opens it for reading,
// creates it if it is missing, as flock(1) does, and never writes to it or removes it.
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

// Opens the file `name` in the directory (not in its inner one). Errc::denied: it is a symbolic
// link, or not a regular file.
Result<FlockFile> open_flock_file(const Directory& where, const std::string& name, bool make);

// Whether the path still leads to that file. A lock on a file that was deleted or replaced does not
// exclude.
Result<bool> in_place(const Directory& where, const std::string& name, const FlockFile& file);

// Sets a mark that shows which grant a lock belongs to, and that ends with the lock: a shared OFD
// lock on one byte far behind the end of the file, at an offset computed from the token. It belongs
// to the same open file as the flock, so it lasts exactly as long, in any process. Every process
// can query it without side effects (F_OFD_GETLK), across pid namespaces. Errc::unavailable:
// another process has locked the whole file with fcntl(2).
Result<void> set_mark(int fd, FencingToken token, std::string_view path);
void clear_mark(int fd, FencingToken token) noexcept;
// whether another open file than `fd` has the mark
bool marked(int fd, FencingToken token) noexcept;

}  // namespace dlock::file
