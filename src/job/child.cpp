// SPDX-License-Identifier: Apache-2.0
// CMakeLists.txt builds this file without instrumentation and stack protector, because the child
// must not call a library.
#include "job/child.hpp"
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include "core/number.hpp"
#include "job/raw_call.hpp"

namespace dlock::run {
namespace {

std::vector<std::string> find_in_path(const std::string& name) {
  if (name.empty()) return {};
  if (name.find('/') != name.npos) return {name};
  const char* path = std::getenv("PATH");
  std::vector<std::string> found;
  for (std::string_view rest = path ? path : "/bin:/usr/bin";;) {
    const auto end = rest.find(':');
    const std::string_view directory = rest.substr(0, end);  // empty: the current directory
    if (directory.size() < PATH_MAX)
      found.push_back(std::string(directory) + (directory.empty() ? "" : "/") + name);
    if (end == rest.npos) return found;
    rest.remove_prefix(end + 1);
  }
}

void set_disposition(int signal, void (*handler)(int)) {
#if defined(__x86_64__) || defined(__aarch64__)
  const struct {
    void (*handler)(int);
    unsigned long flags, restorer, mask;
  } action{handler, 0, 0, 0};
  raw_call(SYS_rt_sigaction, signal, as_argument(&action), 0, sizeof action.mask);
#else
  ::signal(signal, handler);
#endif
}

// Returns whether to try the next directory of PATH, as execvp(3) of glibc does.
bool goes_on(long error) {
  return error == -ENOENT || error == -EACCES || error == -ENOTDIR || error == -ESTALE ||
         error == -ENODEV || error == -ETIMEDOUT;
}

// Returns the errno if every exec failed; otherwise it does not return.
long execute(const Child& c) {
  long error = -ENOENT;
  bool refused = false;
  for (const char* const* file = c.files; *file; ++file) {
    error = raw_call(SYS_execve, as_argument(*file), as_argument(c.words),
                     as_argument(c.how.environment));
    if (error == -ENOEXEC) {
      c.script[1] = *file;
      error = raw_call(SYS_execve, as_argument(c.script[0]), as_argument(c.script),
                       as_argument(c.how.environment));
    }
    if (!goes_on(error)) return -error;
    refused |= error == -EACCES;
  }
  return refused ? EACCES : -error;
}

[[noreturn]] void become(const Child& c) {
  raw_call(SYS_setpgid, 0, c.how.group);
  raw_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  // If the guard died between clone and prctl, no signal comes: the child must exit by itself.
  if (raw_call(SYS_getppid) != c.guard) raw_call(SYS_exit_group, 125);
  set_disposition(SIGBUS, c.how.signals.on_bus);
  set_disposition(SIGCHLD, c.how.signals.on_child);
  set_disposition(SIGXFSZ, c.how.signals.on_file_size);
  // Signals that were sent since the clone arrive now; none is lost.
  raw_call(SYS_rt_sigprocmask, SIG_SETMASK, as_argument(&c.how.signals.mask), 0, _NSIG / 8);
  const auto error = static_cast<int>(execute(c));
  if (c.how.error_pipe >= 0)
    raw_call(SYS_write, c.how.error_pipe, as_argument(&error), sizeof error);
  for (;;) raw_call(SYS_exit_group, error == ENOENT ? 127 : 126);
}

// Since Linux 5.16 a core dump ends only the process that dumps core. Before, it also ended the
// processes that shared its memory.
bool may_share_memory() {
  utsname system{};
  if (::uname(&system) != 0) return false;
  std::string_view release = system.release;
  const auto major = leading_number<int>(release);
  release.remove_prefix(release.starts_with('.') ? 1 : 0);
  const auto minor = leading_number<int>(release);
  return major && minor && (*major > 5 || (*major == 5 && *minor >= 16));
}

// Calls clone3(2) for a child on another stack. Returns -errno on failure.
long clone_onto_stack(const clone_args& args, const Child& child) {
#if defined(__x86_64__)
  register const Child* argument asm("r12") = &child;
  register void (*entry)(const Child&) asm("r13") = become;
  long result = SYS_clone3;
  asm volatile(
      "syscall; testq %%rax, %%rax; jnz 1f; xorl %%ebp, %%ebp; movq %%r12, %%rdi; callq *%%r13; "
      "ud2; 1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), "r"(argument), "r"(entry)
      : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register long result asm("x0") = as_argument(&args);
  register long size asm("x1") = sizeof args;
  register const Child* argument asm("x9") = &child;
  register void (*entry)(const Child&) asm("x10") = become;
  asm volatile("svc 0; cbnz x0, 1f; mov x29, xzr; mov x30, xzr; mov x0, x9; blr x10; brk 1; 1:"
               : "+r"(result)
               : "r"(number), "r"(size), "r"(argument), "r"(entry)
               : "memory");
  return result;
#else
  (void)args, (void)child;
  return -ENOSYS;
#endif
}

}  // namespace

Child::Child(std::vector<std::string> argv, const How& h, const std::string& file)
    : how(h),
      text_(std::move(argv)),
      found_(file.empty() ? find_in_path(text_.front()) : std::vector{file}) {
  for (const std::string& word : text_) words_.push_back(const_cast<char*>(word.c_str()));
  words_.push_back(nullptr);
  for (const std::string& f : found_) files_.push_back(f.c_str());
  files_.push_back(nullptr);
  script_ = {"/bin/sh", nullptr};
  script_.insert(script_.end(), words_.begin() + 1, words_.end());
  files = files_.data();
  words = words_.data();
  script = script_.data();
}

pid_t start_child(Child& child, int cgroup) {
  clone_args args{};
  const std::uint64_t sharing = may_share_memory() ? CLONE_VM : 0;
  args.flags = sharing;
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uint64_t>(child.stack);
  args.stack_size = sizeof child.stack;
  long pid = -ENOSYS;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(cgroup);
    pid = clone_onto_stack(args, child);
    args.flags = sharing;
    args.cgroup = 0;
  }
  // If the cgroup accepts no processes (controllers are enabled, or a limit is reached), start the
  // child outside of it.
  if (pid < 0) pid = clone_onto_stack(args, child);
  if (pid > 0) return static_cast<pid_t>(pid);
  const pid_t copy = ::fork();
  if (copy == 0) become(child);
  return copy;
}

}  // namespace dlock::run
