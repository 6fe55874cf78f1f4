// SPDX-License-Identifier: Apache-2.0
#include "run/cgroup.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace dlock::run {
namespace {

// The directory of our own cgroup v2, or nothing. Both usual mount points: unified, and beside v1 hierarchies.
std::string own_cgroup() {
  const char* mount = nullptr;
  for (const char* at : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    struct statfs fs {};
    if (::statfs(at, &fs) == 0 && static_cast<unsigned long>(fs.f_type) == CGROUP2_SUPER_MAGIC) mount = at;
  }
  if (!mount) return {};
  char text[4096];
  const Fd fd(::open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return {};
  text[n] = '\0';
  const char* line = std::strncmp(text, "0::", 3) == 0 ? text : std::strstr(text, "\n0::");
  if (!line) return {};
  line = std::strchr(line, '/');
  const char* end = line ? std::strchr(line, '\n') : nullptr;
  if (!end) return {};
  const std::string path(line, end);
  if (path.find("/..") != path.npos) return {};  // outside the namespace we can see
  return mount + (path == "/" ? std::string() : path);
}

// A nested dlock that was killed may have left its own below ours.
void remove_tree(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  if (DIR* dir = ::opendir(path.c_str())) {
    while (const dirent* e = ::readdir(dir))
      if (e->d_type == DT_DIR && e->d_name[0] != '.') remove_tree(path + "/" + e->d_name);
    ::closedir(dir);
  }
  ::rmdir(path.c_str());
}

constexpr std::string_view prefix = "dlock-";

std::string name_for(pid_t guard, const std::string& own = own_cgroup()) {
  return own.empty() ? own : own + '/' + std::string(prefix) + std::to_string(guard);
}

// What is left of a guard that was killed together with its dlock. Looked for only where there is any cgroup below ours, which one stat
// tells, and among so many that it costs nothing. Only empty ones can be removed.
//
// 1. A guard of another pid namespace makes one;  2. we see no such process, and remove it;  3. it forks its job without: cgroup.kill is a
// second line, the sweep is the first.
void remove_leftovers(const std::string& own) {
  struct stat s {};
  if (::stat(own.c_str(), &s) != 0 || s.st_nlink <= 3) return;  // ours is there
  DIR* dir = ::opendir(own.c_str());
  if (!dir) return;
  int left = 64;
  while (const dirent* e = left > 0 ? ::readdir(dir) : nullptr) {
    const std::string_view name = e->d_name;
    if (!name.starts_with(prefix)) continue;
    --left;
    pid_t pid = 0;
    const char* const last = name.data() + name.size();
    if (const auto [end, error] = std::from_chars(name.data() + prefix.size(), last, pid); error != std::errc{} || end != last)
      continue;
    if (pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (::fstatat(::dirfd(dir), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && s.st_uid == ::geteuid())
      remove_tree(name_for(pid, own));
  }
  ::closedir(dir);
}

}  // namespace

JobCgroup JobCgroup::create(pid_t guard) {
  JobCgroup c;
  const std::string own = own_cgroup();
  c.path_ = name_for(guard, own);
  if (c.path_.empty()) return c;
  const char* path = c.path_.c_str();
  if (::mkdir(path, 0755) != 0 && !(errno == EEXIST && ::rmdir(path) == 0 && ::mkdir(path, 0755) == 0)) return c;
  c.open();
  remove_leftovers(own);
  if (c && ::faccessat(c.dir_.get(), "cgroup.kill", W_OK, 0) == 0) return c;  // Linux 5.14
  ::rmdir(path);
  return {};
}

JobCgroup JobCgroup::find(pid_t guard) {
  JobCgroup c;
  c.path_ = name_for(guard);
  if (!c.path_.empty()) c.open();
  return c;
}

void JobCgroup::open() { dir_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)); }

pid_t JobCgroup::fork() const {
  if (dir_) {
    clone_args args{};
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<std::uint64_t>(dir_.get());
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
    if (pid >= 0) return pid;  // else the cgroup takes no processes (controllers enabled, a limit): do without it
  }
  return ::fork();
}

void JobCgroup::kill() const {
  if (!dir_) return;
  const Fd file(::openat(dir_.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
  if (file) (void)!::write(file.get(), "1", 1);
}

void JobCgroup::remove() {
  if (!dir_) return;
  dir_.reset();
  remove_tree(path_);
}

}  // namespace dlock::run
