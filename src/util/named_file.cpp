// SPDX-License-Identifier: Apache-2.0
#include "util/named_file.hpp"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include "util/wait.hpp"

namespace dlock {

namespace {

// True: readable, or at its end, or broken: read(2) tells which. Not for a FIFO that has had no
// writer yet, though read(2) would return end of file.
bool readable(int fd, Deadline until) {
  pollfd p{fd, POLLIN, 0};
  return wait_until({&p, 1}, until) != 0;
}

}  // namespace

Fd open_to_read(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

std::optional<std::string> read_text(int fd, const Reading& how) {
  std::string text;
  for (std::array<char, 4096> block; text.size() <= how.longest;) {
    if (!readable(fd, how.until)) return errno = ETIMEDOUT, std::nullopt;
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return std::nullopt;
    text.append(block.data(), static_cast<std::size_t>(n));
    const auto end = how.first_line ? text.find('\n') : std::string::npos;
    if (end != std::string::npos) text.resize(end);
    if ((n == 0 || end != std::string::npos) && text.size() <= how.longest) return text;
  }
  errno = EFBIG;
  return std::nullopt;
}

Fd open_to_write(const std::string& path, int how, mode_t mode) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | how;
  Fd fd(::open(path.c_str(), flags | O_NOFOLLOW, mode));
  if (fd || errno != ELOOP) return fd;
  struct stat link {};
  if (::lstat(path.c_str(), &link) != 0 || (link.st_uid != 0 && link.st_uid != ::geteuid()))
    return errno = ELOOP, Fd();
  return Fd(::open(path.c_str(), flags, mode));
}

const char* trouble_with_file(const std::string& path, bool directory_too) noexcept {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || S_ISREG(st.st_mode) ||
      (directory_too && S_ISDIR(st.st_mode)))
    return nullptr;
  return "is not a regular file";
}

}  // namespace dlock
