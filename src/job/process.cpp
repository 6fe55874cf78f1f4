// SPDX-License-Identifier: Apache-2.0
#include "job/process.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <unordered_set>
#include "core/number.hpp"

namespace dlock::run {
namespace {

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  const std::string path = proc_path(pid, "/task");
  for (const std::string& thread : names_in(path, DT_DIR)) {
    const std::string list = path + '/' + thread + "/children";
    if (const Fd fd(::open(list.c_str(), O_RDONLY | O_CLOEXEC)); fd) read_pids(fd.get(), found);
  }
  return found;
}

// Returns whether /proc is of our PID namespace. After `unshare --pid --fork` without --mount-proc,
// /proc still shows the processes outside, and every process has another pid there than here.
bool proc_is_of_our_namespace() {
  char text[16];
  const ssize_t n = ::readlink("/proc/self", text, sizeof text);
  return n > 0 && parse_number<pid_t>({text, static_cast<std::size_t>(n)}) == ::getpid();
}

}  // namespace

// dlock has at most three threads (the main thread, the Keeper, the Writer), and the guard two.
// With the command that makes 6.
std::string why(const FailedCall& call) {
  if (call.error == EMFILE || call.error == ENFILE) return "out of descriptors (ulimit -n)";
  if (call.error == EAGAIN && std::string_view(call.name) != "sendmsg")
    return "too many processes and threads of this user (ulimit -u) or cgroup (pids.max); "
           "a run needs up to 6, the command among them";
  return std::string(call.name).append(": ").append(::strerrordesc_np(call.error));
}

// One read may return only a part of the list.
void read_pids(int fd, std::vector<pid_t>& out) {
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

// Avoids printf and scanf: each costs half a dozen page faults when a run starts.
std::string proc_path(pid_t pid, std::string_view rest) {
  return "/proc/" + std::to_string(pid).append(rest);
}

std::string read_beginning(const std::string& path) {
  char text[4096];
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text) : -1;
  return {text, n > 0 ? static_cast<std::size_t>(n) : 0};
}

std::vector<std::string> names_in(const std::string& path, unsigned char type) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(path.c_str());
  while (const dirent* e = dir ? ::readdir(dir) : nullptr)
    if (e->d_type == type && e->d_name[0] != '.') names.emplace_back(e->d_name);
  if (dir) ::closedir(dir);
  return names;
}

std::uint64_t own_namespace(std::string_view kind) {
  struct stat s {};
  return ::stat(std::string("/proc/self/ns/").append(kind).c_str(), &s) == 0 ? s.st_ino : 0;
}

std::optional<ProcessStat> process_stat(pid_t pid) {
  const std::string text = read_beginning(proc_path(pid, "/stat"));
  std::string_view rest = text;
  const auto name_end = rest.rfind(')');  // the name may contain any character
  if (name_end == rest.npos) return std::nullopt;
  rest.remove_prefix(name_end + 1);
  const auto to_next = [&] {
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  };
  const auto skip = [&] { to_next(), rest.remove_prefix(std::min(rest.size(), rest.find(' '))); };
  const auto number = [&]<class T>(T) { return to_next(), leading_number<T>(rest); };
  skip();  // field 3, the state
  const auto parent = number(pid_t{}), group = number(pid_t{}), session = number(pid_t{});
  for (int field = 7; field < 22; ++field) skip();
  const auto start = number(std::uint64_t{});
  if (!parent || !group || !session || !start) return std::nullopt;
  return ProcessStat{{pid, *start}, *parent, *group, *session};
}

void identify(Identity& who) {
  const auto process = process_stat(::getpid());
  const std::uint64_t space = own_namespace("pid");
  who.pid = ::getpid();
  who.process.reset();
  if (process && space != 0) who.process = Identity::Process{process->id.start, space};
}

Presence find_process(const Identity& who) {
  const std::uint64_t space = own_namespace("pid");
  if (!who.process || who.pid <= 0 || !who.of_this_host() || space == 0 ||
      space != who.process->pid_namespace)
    return Presence::unknown;
  const auto pid = static_cast<pid_t>(who.pid);
  if (::kill(pid, 0) != 0 && errno == ESRCH) return Presence::ended;
  const auto process = process_stat(pid);
  if (!process) return Presence::unknown;  // /proc may hide the process
  return process->id.start == who.process->start ? Presence::lives : Presence::ended;
}

bool is_ancestor(const ProcessId& wanted) {
  for (pid_t pid = ::getppid(); pid > 0;) {
    const auto process = process_stat(pid);
    if (!process) return false;
    if (pid == wanted.pid) return process->id == wanted;
    pid = process->parent;
  }
  return false;
}

std::optional<pid_t> parent_of(const ProcessId& child) {
  if (::kill(child.pid, 0) != 0 && errno == ESRCH) return std::nullopt;
  const auto process = process_stat(child.pid);
  if (!process) return 0;  // /proc may hide the process, or no descriptor is free
  return process->id == child ? std::optional{process->parent} : std::nullopt;
}

// If a process on the way dies during the walk, its children get another parent, so the walk is
// repeated.
bool is_descendant(pid_t pid) {
  const pid_t us = ::getpid();
  for (int tries = 0; tries < 3; ++tries) {
    pid_t at = pid;
    while (at > 1) {
      const auto process = process_stat(at);
      if (!process) break;
      if (process->parent == us) return true;
      at = process->parent;
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
  if (list_) read_pids(list_.get(), found);
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
  // Collect all descendants before any of them gets the signal. When a process dies, its children
  // become ours, and the walk would not find them at their old place.
  const std::vector<pid_t> all = descendants_of(::getpid(), until);
  for (const pid_t p : list)
    if (wanted(p)) ::kill(p, signal);
  for (const pid_t p : all) {
    if (children.contains(p)) continue;
    if (Clock::now() >= until) return;
    const Fd pin(static_cast<int>(::syscall(SYS_pidfd_open, p, 0)));
    if (pin && is_descendant(p) && wanted(p))
      ::syscall(SYS_pidfd_send_signal, pin.get(), signal, nullptr, 0);
  }
}

void kill_children(const std::vector<pid_t>& children) {
  for (const pid_t p : children) ::kill(p, SIGKILL);
}

}  // namespace dlock::run
