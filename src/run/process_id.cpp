// SPDX-License-Identifier: Apache-2.0
#include "run/process_id.hpp"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include "core/number.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// No printf, no scanf: at the start of a run each of them costs half a dozen page faults.
std::string proc_path(pid_t pid, std::string_view rest) {
  return "/proc/" + std::to_string(pid).append(rest);
}

std::optional<ProcessStat> look_up(pid_t pid) {
  char text[1024];
  const Fd fd(::open(proc_path(pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text) : -1;
  if (n <= 0) return std::nullopt;
  std::string_view rest(text, static_cast<std::size_t>(n));
  const auto name_end = rest.rfind(')');  // the name may contain anything
  if (name_end == rest.npos) return std::nullopt;
  rest.remove_prefix(name_end + 1);
  const auto to_next = [&] {
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  };
  const auto skip = [&] { to_next(), rest.remove_prefix(std::min(rest.size(), rest.find(' '))); };
  const auto number = [&]<class T>(T) { return to_next(), take_number<T>(rest); };
  skip();  // field 3, the state
  const auto parent = number(pid_t{}), group = number(pid_t{}), session = number(pid_t{});
  for (int field = 7; field < 22; ++field) skip();
  const auto start = number(std::uint64_t{});
  if (!parent || !group || !session || !start) return std::nullopt;
  return ProcessStat{{pid, *start}, *parent, *group, *session};
}

void identify(Identity& who) {
  struct stat space {};
  const auto seen = look_up(::getpid());
  who.pid = ::getpid();
  who.process.reset();
  if (seen && ::stat("/proc/self/ns/pid", &space) == 0)
    who.process = Identity::Process{seen->id.start, space.st_ino};
}

Sighted look_for(const Identity& who) {
  struct stat space {};
  if (!who.process || who.pid <= 0 || !who.of_this_host() ||
      ::stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != who.process->pid_namespace)
    return Sighted::unknown;
  const auto pid = static_cast<pid_t>(who.pid);
  if (::kill(pid, 0) != 0 && errno == ESRCH) return Sighted::ended;
  const auto seen = look_up(pid);
  if (!seen) return Sighted::unknown;  // a /proc that hides it
  return seen->id.start == who.process->start ? Sighted::lives : Sighted::ended;
}

bool is_ancestor(const ProcessId& wanted) {
  for (pid_t pid = ::getppid(); pid > 0;) {
    const auto seen = look_up(pid);
    if (!seen) return false;
    if (pid == wanted.pid) return seen->id == wanted;
    pid = seen->parent;
  }
  return false;
}

}  // namespace dlock::run
