// SPDX-License-Identifier: Apache-2.0
// Facts that a shell cannot see exactly:
//   probe fds FILE            writes the open descriptors to FILE, one `NUMBER TARGET ACCESS
//   [cloexec]` per line
//   probe args FILE ARG...    writes the arguments to FILE, each in hex
//   probe end FILE CMD...     runs CMD with no ignored signals except nohup(1)'s; its pid is in
//   FILE.pid
//                             while it runs, its end in FILE (`signal 15 (TERM)`) after
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
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

int args(const char* file, char** argv) {
  std::string text;
  for (; *argv; ++argv, text += '\n')
    for (const char* c = *argv; *c; ++c) {
      char hex[3];
      std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(*c));
      text += hex;
    }
  write_file(file, text);
  return 0;
}

int end_of(const std::string& file, char** command) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);  // signals to the whole group are for the command
  const pid_t pid = ::fork();
  if (pid == 0) {
    // a shell starts background jobs with these ignored
    for (int sig : {SIGINT, SIGQUIT}) ::signal(sig, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::execvp(command[0], command);
    ::_exit(98);
  }
  write_file(file + ".pid", std::to_string(pid) + "\n");
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) give_up(std::string("waitpid: ") + std::strerror(errno));
  write_file(file, describe(status) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "fds" && argc == 3) return fds(argv[2]);
  if (what == "args") return args(argv[2], argv + 3);
  if (what == "end" && argc > 3) return end_of(argv[2], argv + 3);
  std::fprintf(stderr, "usage: probe fds FILE | args FILE ARG... | end FILE COMMAND...\n");
  return 64;
}
