// SPDX-License-Identifier: Apache-2.0
#include "file/flock/flock_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include "core/text.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {
namespace {

std::string path_of(const Directory& where, const std::string& name) {
  return fmt::format("{}/{}", where.path(), name);
}

struct flock mark(short type, FencingToken token) {
  constexpr FencingToken far_behind = FencingToken{1} << 62;
  struct flock byte {};
  byte.l_type = type;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(far_behind | (token & (far_behind - 1)));
  byte.l_len = 1;
  return byte;
}

}  // namespace

Result<FlockFile> open_flock_file(const Directory& where, const std::string& name, bool make) {
  const std::string path = path_of(where, name);
  TRY(root, where.open_root(false));
  if (!root.dir) {
    if (make)
      return fail(Errc::cannot_create,
                  "lock directory {}: does not exist, and recipe flock makes none",
                  printable(where.path()));
    return FlockFile{};
  }
  const int dir = root.dir.get();
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd fd(::openat(dir, name.c_str(), flags));
  if (!fd && errno == ENOENT) {
    if (!make) return FlockFile{};
    if (root.access.group) {
      TRY_VOID(make_shared_file(dir, name, root.access, path));
    } else {
      // the umask applies, as with flock(1)
      fd = Fd(::openat(dir, name.c_str(), flags | O_CREAT | O_EXCL, 0666));
    }
    if (!fd && (root.access.group || errno == EEXIST)) fd = Fd(::openat(dir, name.c_str(), flags));
  }
  if (!fd && errno == ELOOP)
    return fail(Errc::denied, "{}: is a symbolic link, which dlock does not follow",
                printable(path));
  if (!fd) return fail_errno("open", path, errno);
  struct stat st {};
  if (::fstat(fd.get(), &st)) return fail_errno("open", path, errno);
  if (!S_ISREG(st.st_mode)) return fail(Errc::denied, "{}: is not a regular file", printable(path));
  return FlockFile{std::move(fd), st.st_dev, st.st_ino};
}

Result<bool> in_place(const Directory& where, const std::string& name, const FlockFile& file) {
  struct stat there {};
  const std::string path = path_of(where, name);
  if (::lstat(path.c_str(), &there) == 0)
    return there.st_ino == file.inode && there.st_dev == file.device;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return fail_errno("open", path, errno);
}

Result<void> set_mark(int fd, FencingToken token, std::string_view path) {
  struct flock byte = mark(F_RDLCK, token);
  if (::fcntl(fd, F_OFD_SETLK, &byte) == 0) return {};
  if (errno == EAGAIN || errno == EACCES)
    return fail(Errc::unavailable, "{}: another process has locked the whole file with fcntl(2)",
                printable(path));
  return fail_errno("lock", path, errno);
}

void clear_mark(int fd, FencingToken token) noexcept {
  struct flock byte = mark(F_UNLCK, token);
  ::fcntl(fd, F_OFD_SETLK, &byte);
}

bool marked(int fd, FencingToken token) noexcept {
  struct flock byte = mark(F_WRLCK, token);
  return ::fcntl(fd, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
}

}  // namespace dlock::file
