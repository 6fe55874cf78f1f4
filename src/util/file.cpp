// SPDX-License-Identifier: Apache-2.0
#include "util/file.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace dlock {

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

std::string distrust(int fd, const Trust& trust) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return ::strerrordesc_np(errno);
  return distrust(st, trust);
}

std::string distrust(const struct stat& st, const Trust& trust) {
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

}  // namespace dlock
