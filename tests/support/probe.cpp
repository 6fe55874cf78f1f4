// SPDX-License-Identifier: Apache-2.0
// What a shell cannot see exactly: `probe fds FILE` writes the open descriptors to FILE, a line
// `NUMBER TARGET ACCESS [cloexec]` each.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include "support/process.hpp"

using namespace dlock::test;

namespace {

// Atomic: a process that polls for the file never reads half of it.
void write_file(const std::string& path, const std::string& text) {
  const std::string draft = path + ".draft";
  const dlock::Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != ssize_t(text.size()) ||
      ::rename(draft.c_str(), path.c_str()) != 0)
    give_up(path + ": " + std::strerror(errno));
}

int fds(const char* file) {
  std::vector<int> open;
  DIR* dir = ::opendir("/proc/self/fd");
  while (const dirent* e = dir ? ::readdir(dir) : nullptr)
    if (e->d_name[0] != '.' && std::atoi(e->d_name) != ::dirfd(dir))
      open.push_back(std::atoi(e->d_name));
  std::sort(open.begin(), open.end());
  std::string text;
  for (int fd : open) {
    char target[PATH_MAX] = {};
    if (::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target - 1) < 0)
      continue;
    const char* const access[] = {"r", "w", "rw", "?"};
    const int flags = ::fcntl(fd, F_GETFL);
    text += std::to_string(fd) + " " + target + " " + access[flags & O_ACCMODE] +
            (flags & O_NONBLOCK ? " nonblock" : "") +
            (::fcntl(fd, F_GETFD) & FD_CLOEXEC ? " cloexec" : "") + "\n";
  }
  ::closedir(dir);
  write_file(file, text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "fds" && argc == 3) return fds(argv[2]);
  std::fprintf(stderr, "usage: probe fds FILE\n");
  return 64;
}
