// SPDX-License-Identifier: Apache-2.0
// The file that other programs lock with flock(2). It belongs to these programs: dlock opens the
// file for reading, and creates it if it is missing, as flock(1) does. dlock never writes to the
// file, and removes it only in FlockBackend::erase().
#pragma once
#include <string>
#include "core/lease.hpp"
#include "file/directory.hpp"

namespace dlock::file {

struct FlockFile {
  Fd fd{};  // -1: the file does not exist
  dev_t device = 0;
  ino_t inode = 0;
};

// Opens the file `name` in the directory `where` itself, not in its inner directory. Errc::denied:
// it is a symbolic link, or not a regular file.
Result<FlockFile> open_flock_file(const Directory& where, const std::string& name, bool make);

// Returns whether the path still leads to `file`. A lock on a file that was deleted or replaced
// excludes nobody.
Result<bool> in_place(const Directory& where, const std::string& name, const FlockFile& file);

// Sets the mark of a grant: a shared OFD lock on one byte far behind the end of the file, at an
// offset computed from the token. The mark shows which grant the flock belongs to. Mark and flock
// belong to the same open file, so they end together, whichever processes have that file open.
// Every process can query the mark without side effects (F_OFD_GETLK), across pid namespaces.
// Errc::unavailable: another process has locked the whole file with fcntl(2).
Result<void> set_mark(int fd, FencingToken token, std::string_view path);
void clear_mark(int fd, FencingToken token) noexcept;
// Returns whether an open file other than that of `fd` has the mark.
bool marked(int fd, FencingToken token) noexcept;

}  // namespace dlock::file
