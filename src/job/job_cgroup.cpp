// SPDX-License-Identifier: Apache-2.0
#include "job/job_cgroup.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <vector>
#include "core/number.hpp"
#include "core/text.hpp"
#include "job/process.hpp"

namespace dlock::run {
namespace {

// Returns the directory of our own cgroup v2; empty: there is none. It knows both usual mount
// points: that of cgroup v2 alone, and that of cgroup v2 beside v1 hierarchies.
std::string own_cgroup() {
  const char* mount = nullptr;
  for (const char* at : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    struct statfs fs {};
    if (::statfs(at, &fs) == 0 && static_cast<unsigned long>(fs.f_type) == CGROUP2_SUPER_MAGIC)
      mount = at;
  }
  if (!mount) return {};
  const std::string text = read_beginning("/proc/self/cgroup");
  for (std::string_view rest = text; rest.find('\n') != rest.npos;) {
    std::string_view path = next_part(rest, '\n');
    if (!path.starts_with("0::/")) continue;
    path.remove_prefix(3);
    if (path.find("/..") != path.npos) return {};  // outside the visible namespace
    return path == "/" ? mount : mount + std::string(path);
  }
  return {};
}

// Removes a cgroup with the cgroups in it, which nested dlocks that were killed may have left.
void remove_tree(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  for (const std::string& name : names_in(path, DT_DIR)) remove_tree(path + '/' + name);
  ::rmdir(path.c_str());
}

// The PID namespace is part of the name, because another guard may have the same pid in a container
// that has no cgroup of its own.
constexpr std::string_view prefix = "dlock-";
std::string suffix() {
  const std::uint64_t space = own_namespace("pid");
  return space != 0 ? '-' + std::to_string(space) : std::string();
}

std::string name_for(pid_t guard, const std::string& own, const std::string& space) {
  return own.empty() || space.empty()
             ? std::string()
             : own + '/' + std::string(prefix) + std::to_string(guard) + space;
}

// Removes cgroups left by guards that were killed together with their dlock, or with their
// container. It searches only if there is any cgroup below ours, which one stat shows. The kernel
// removes only empty cgroups.
//
// dlock cannot know whether a guard in another PID namespace lives. If that guard has not started
// its job yet, its cgroup is empty and gets removed, and its job runs without a cgroup.
void remove_leftovers(const std::string& own, const std::string& space) {
  struct stat s {};
  if (::stat(own.c_str(), &s) != 0 || s.st_nlink <= 2) return;  // no cgroup below ours
  for (const std::string& name : names_in(own, DT_DIR)) {
    std::string_view there = name;
    if (!there.starts_with(prefix)) continue;
    there.remove_prefix(prefix.size());
    const pid_t pid = leading_number<pid_t>(there).value_or(0);
    if (pid <= 0 || !there.starts_with('-') || !parse_number<std::uint64_t>(there.substr(1)))
      continue;
    const bool lives = there == space && (::kill(pid, 0) == 0 || errno != ESRCH);
    const std::string path = own + '/' + name;
    if (!lives && ::lstat(path.c_str(), &s) == 0 && s.st_uid == ::geteuid()) remove_tree(path);
  }
}

}  // namespace

JobCgroup JobCgroup::create(pid_t guard) {
  JobCgroup c;
  const std::string own = own_cgroup(), space = suffix();
  c.path_ = name_for(guard, own, space);
  if (c.path_.empty()) return c;
  const char* path = c.path_.c_str();
  if (::mkdir(path, 0755) != 0 &&
      !(errno == EEXIST && ::rmdir(path) == 0 && ::mkdir(path, 0755) == 0))
    return c;
  c.open();
  if (c.kill_) return c;  // cgroup.kill exists since Linux 5.14
  ::rmdir(path);
  return {};
}

JobCgroup JobCgroup::find(pid_t guard) {
  JobCgroup c;
  c.path_ = name_for(guard, own_cgroup(), suffix());
  if (!c.path_.empty()) c.open();
  return c;
}

void JobCgroup::open() {
  dir_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (dir_) kill_.reset(::openat(dir_.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
}

void JobCgroup::kill() const {
  if (kill_) (void)!::write(kill_.get(), "1", 1);
}

// A member that forks while it is moved leaves a child in this cgroup. So the list is read until it
// is empty, or until no member in it can be moved. The cgroups below this one belong to nested
// runs. Their members stay there, so that the nested guards can still kill them.
//
// One race remains:
// 1. This function reads the list.  2. A member that is no child of the guard ends and is reaped.
// 3. A process outside the job gets the pid of that member: this function moves that process to the
//    cgroup around this one, and does not kill it. The kernel reuses a pid only after it has used
//    all other pids.
void JobCgroup::move_members_out(Deadline until) const {
  const Fd around(
      ::open((path_.substr(0, path_.rfind('/')) + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  const Fd list(dir_ ? ::openat(dir_.get(), "cgroup.procs", O_RDONLY | O_CLOEXEC) : -1);
  for (bool moved = around && list; moved && Clock::now() < until;) {
    std::vector<pid_t> members;
    read_pids(list.get(), members);
    moved = false;
    for (const pid_t p : members) {
      const std::string pid = std::to_string(p);
      moved |= ::write(around.get(), pid.data(), pid.size()) > 0;
    }
  }
}

void JobCgroup::remove() {
  if (!dir_) return;
  dir_.reset();
  kill_.reset();
  remove_tree(path_);
}

void JobCgroup::remove_after_job() {
  if (!dir_) return;
  remove();
  remove_leftovers(path_.substr(0, path_.rfind('/')), path_.substr(path_.rfind('-')));
}

}  // namespace dlock::run
