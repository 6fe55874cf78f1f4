// SPDX-License-Identifier: Apache-2.0
#include "run/process_tree.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <string>
#include <unordered_set>
#include "core/number.hpp"
#include "run/process_id.hpp"

namespace dlock::run {
namespace {

// Appends the pids listed in a /proc/<pid>/task/<thread>/children, from its beginning. It may be
// longer than one read.
void read_list(int fd, std::vector<pid_t>& out) {
  char buffer[4096];
  pid_t number = 0;
  off_t at = 0;
  for (ssize_t n; (n = ::pread(fd, buffer, sizeof buffer, at)) > 0; at += n) {
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
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  const std::string path = proc_path(pid, "/task");
  DIR* tasks = ::opendir(path.c_str());
  if (!tasks) return found;
  while (const dirent* e = ::readdir(tasks)) {
    if (e->d_name[0] == '.') continue;
    const std::string list = path + '/' + e->d_name + "/children";
    if (const Fd fd(::open(list.c_str(), O_RDONLY | O_CLOEXEC)); fd) read_list(fd.get(), found);
  }
  ::closedir(tasks);
  return found;
}

// After `unshare --pid --fork` without --mount-proc, /proc still shows the processes outside, with
// other pids.
bool proc_is_of_our_namespace() {
  char text[16];
  const ssize_t n = ::readlink("/proc/self", text, sizeof text);
  return n > 0 && parse_number<pid_t>({text, static_cast<std::size_t>(n)}) == ::getpid();
}

}  // namespace

// When a process in between dies during the walk, its children move up, and the walk is repeated.
bool is_below_us(pid_t pid) {
  const pid_t us = ::getpid();
  for (int tries = 0; tries < 3; ++tries) {
    pid_t at = pid;
    while (at > 1) {
      const auto seen = look_up(at);
      if (!seen) break;
      if (seen->parent == us) return true;
      at = seen->parent;
    }
    if (at <= 1 || at == pid) return false;
  }
  return false;
}

OwnChildren::OwnChildren() {
  if (!proc_is_of_our_namespace()) return;
  const pid_t pid = ::getpid();
  const std::string path = proc_path(pid, "/task/" + std::to_string(pid) + "/children");
  list_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::vector<pid_t> OwnChildren::list() const {
  std::vector<pid_t> found;
  if (list_) read_list(list_.get(), found);
  return found;
}

std::vector<pid_t> descendants_of(pid_t root, Deadline until) {
  std::vector<pid_t> all = children_of(root);
  std::unordered_set<pid_t> known(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size() && Clock::now() < until; ++i)
    for (const pid_t p : children_of(all[i]))
      if (known.insert(p).second) all.push_back(p);
  return all;
}

void signal_descendants(const OwnChildren& own, pid_t group, int signal, Deadline until) {
  const std::vector<pid_t> list = own.list();
  const std::unordered_set<pid_t> children(list.begin(), list.end());
  const auto wanted = [&](pid_t p) { return group == 0 || ::getpgid(p) == group; };
  // Collected before any is signalled: a dying process hands its children to us, where a finished
  // walk would miss them.
  const std::vector<pid_t> all = descendants_of(::getpid(), until);
  for (const pid_t p : list)
    if (wanted(p)) ::kill(p, signal);
  for (const pid_t p : all) {
    if (children.contains(p)) continue;
    if (Clock::now() >= until) return;
    const Fd pin(static_cast<int>(::syscall(SYS_pidfd_open, p, 0)));
    if (pin && is_below_us(p) && wanted(p))
      ::syscall(SYS_pidfd_send_signal, pin.get(), signal, nullptr, 0);
  }
}

std::vector<pid_t> kill_children(const OwnChildren& own, const std::function<bool(pid_t)>& spared) {
  std::vector<pid_t> ours = own.list();
  if (spared) std::erase_if(ours, spared);
  for (const pid_t p : ours) ::kill(p, SIGKILL);
  return ours;
}

}  // namespace dlock::run
