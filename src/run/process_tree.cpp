// SPDX-License-Identifier: Apache-2.0
#include "run/process_tree.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include "util/fd.hpp"

namespace dlock::run {
namespace {

// Appends the pids listed in /proc/<pid>/task/<thread>/children. The list may be longer than one read.
bool read_children(pid_t pid, const char* thread, std::vector<pid_t>& out) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%s/children", static_cast<int>(pid), thread);
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  char buffer[4096];
  pid_t number = 0;
  for (ssize_t n; (n = ::read(fd.get(), buffer, sizeof buffer)) > 0;) {
    for (const char* c = buffer; c < buffer + n; ++c) {
      if (*c >= '0' && *c <= '9') {
        number = number * 10 + (*c - '0');
      } else if (number > 0) {
        out.push_back(number);
        number = 0;
      }
    }
  }
  if (number > 0) out.push_back(number);
  return true;
}

// After `unshare --pid --fork` without --mount-proc, /proc still tells of the processes outside, by other numbers.
bool proc_is_of_our_namespace() {
  char text[16];
  const ssize_t n = ::readlink("/proc/self", text, sizeof text);
  pid_t pid = 0;
  return n > 0 && std::from_chars(text, text + n, pid).ptr == text + n && pid == ::getpid();
}

}  // namespace

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", static_cast<int>(pid));
  DIR* tasks = ::opendir(path);
  if (!tasks) return found;
  while (const dirent* e = ::readdir(tasks))
    if (e->d_name[0] != '.') read_children(pid, e->d_name, found);
  ::closedir(tasks);
  return found;
}

std::optional<std::vector<pid_t>> own_children() {
  if (!proc_is_of_our_namespace()) return std::nullopt;
  char thread[16];
  std::snprintf(thread, sizeof thread, "%d", static_cast<int>(::getpid()));
  std::vector<pid_t> found;
  if (!read_children(::getpid(), thread, found)) return std::nullopt;
  return found;
}

std::vector<pid_t> descendants() {
  std::vector<pid_t> all = children_of(::getpid());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const pid_t p : children_of(all[i]))
      if (std::find(all.begin(), all.end(), p) == all.end()) all.push_back(p);
  return all;
}

void signal_descendants(pid_t group, int signal) {
  for (const pid_t p : descendants()) {
    const Fd pin(static_cast<int>(::syscall(SYS_pidfd_open, p, 0)));
    if (!pin) continue;
    if (group == 0 || ::getpgid(p) == group) ::syscall(SYS_pidfd_send_signal, pin.get(), signal, nullptr, 0);
  }
}

std::vector<pid_t> kill_children(const std::vector<pid_t>& spared) {
  std::vector<pid_t> ours = children_of(::getpid());
  std::erase_if(ours, [&](pid_t p) { return std::find(spared.begin(), spared.end(), p) != spared.end(); });
  for (const pid_t p : ours) ::kill(p, SIGKILL);
  return ours;
}

}  // namespace dlock::run
