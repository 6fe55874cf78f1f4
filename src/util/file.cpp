// SPDX-License-Identifier: Apache-2.0
#include "util/file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "core/text.hpp"
#include "util/wait.hpp"

namespace dlock {
namespace {

// Waits until the descriptor has data, is at its end or is broken; read(2) shows which. If a FIFO
// has had no writer yet, readable() goes on waiting, although read(2) would return end of file.
bool readable(int fd, Deadline until) {
  pollfd p{fd, POLLIN, 0};
  return wait_until({&p, 1}, until) != 0;
}

}  // namespace

int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return ENOSPC;
    } else if (errno == EAGAIN) {
      pollfd p{fd, POLLOUT, 0};
      ::poll(&p, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

std::string why_untrusted(int fd, const Trust& trust) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return ::strerrordesc_np(errno);
  return why_untrusted(st, trust);
}

std::string why_untrusted(const struct stat& st, const Trust& trust) {
  if (S_ISDIR(st.st_mode)) return "is a directory";
  if (trust.regular && !S_ISREG(st.st_mode)) return "is not a regular file";
  if (trust.own_or_root && st.st_uid != 0 && st.st_uid != ::geteuid())
    return "belongs neither to you nor to root";
  if (!(st.st_mode & trust.forbidden)) return {};
  if (trust.forbidden == S_IWOTH) return "all users may write to it; use chmod o-w";
  if (trust.forbidden == Trust::others_write) return "others may write to it; use chmod go-w";
  return fmt::format("has mode {:04o}, which lets others in; use chmod 600", st.st_mode & 07777);
}

std::string home_directory() {
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): no other thread
  if (!home || home[0] != '/') {
    const passwd* entry = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe)
    home = entry ? entry->pw_dir : nullptr;
  }
  return home && home[0] == '/' ? home : "";
}

Fd open_to_read(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

std::optional<std::string> read_text(int fd, const ReadLimits& how) {
  std::string text;
  for (std::array<char, 4096> block; text.size() <= how.longest;) {
    if (!readable(fd, how.until)) {
      errno = ETIMEDOUT;
      return std::nullopt;
    }
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
  if (::lstat(path.c_str(), &link) == 0 && (link.st_uid == 0 || link.st_uid == ::geteuid()))
    return Fd(::open(path.c_str(), flags, mode));
  errno = ELOOP;
  return fd;
}

const char* why_unusable(const std::string& path, bool directory_too) noexcept {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || S_ISREG(st.st_mode) ||
      (directory_too && S_ISDIR(st.st_mode)))
    return nullptr;
  return "is not a regular file";
}

}  // namespace dlock
