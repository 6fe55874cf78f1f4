// SPDX-License-Identifier: Apache-2.0
#include "support/process.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>
#include "support/options.hpp"

extern char** environ;

namespace dlock::test {
namespace {
// Signals of the child as a login shell would set them, except as the test asks.
void set_signals(const Spawn& s) {
  struct sigaction act {};
  for (int sig = 1; sig < NSIG; ++sig) {
    act.sa_handler = std::count(s.ignored.begin(), s.ignored.end(), sig) ? SIG_IGN : SIG_DFL;
    ::sigaction(sig, &act, nullptr);
  }
  sigset_t mask;
  ::sigemptyset(&mask);
  for (int sig : s.blocked) ::sigaddset(&mask, sig);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

// Only async-signal-safe calls: other threads of the harness may hold any lock at the moment of the
// fork.
[[noreturn]] void become(const Spawn& s, char** argv, char** env, std::vector<int>& moved) {
  if (s.place == Spawn::Place::own_session) ::setsid();
  if (s.place == Spawn::Place::own_group) ::setpgid(0, 0);
  if (s.tty >= 0) {
    if (::ioctl(s.tty, TIOCSCTTY, 0) != 0) ::_exit(99);
    for (int fd = 0; fd < 3; ++fd) ::dup2(s.tty, fd);
  }
  // Sources first above every wanted number, so that no dup2 overwrites one that is still needed.
  for (std::size_t i = 0; i < s.fds.size(); ++i)
    moved[i] = s.fds[i].second < 0 ? -1 : ::fcntl(s.fds[i].second, F_DUPFD_CLOEXEC, 100);
  for (std::size_t i = 0; i < s.fds.size(); ++i)
    moved[i] < 0 ? ::close(s.fds[i].first) : ::dup2(moved[i], s.fds[i].first);
  set_signals(s);
  ::execvpe(argv[0], argv, env);
  ::_exit(98);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (auto& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

int milliseconds_until(double until) {
  const double left = until - boot_now();
  return left <= 0 ? 0 : int(std::ceil(std::min(left, 3600.0) * 1000));
}

template <class F>
void each_process(F f) {  // f(pid)
  for (const auto& e : std::filesystem::directory_iterator("/proc")) {
    const std::string name = e.path().filename();
    if (name.find_first_not_of("0123456789") == name.npos) f(pid_t(std::atoi(name.c_str())));
  }
}
}  // namespace

double boot_now() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

void give_up(const std::string& what) {
  std::fprintf(stderr, "cannot test: %s\n", what.c_str());
  ::_exit(1);
}

// A thread that is stopped makes no other: so once each that was found is, there are no more.
Frozen::Frozen(pid_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  std::size_t known = 0;
  do {
    known = threads_.size();
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      const pid_t thread = std::stoi(task.path().filename());
      if (std::find(threads_.begin(), threads_.end(), thread) != threads_.end()) continue;
      if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0 ||
          ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 ||
          ::waitpid(thread, nullptr, __WALL) != thread)
        give_up(std::string("ptrace: ") + std::strerror(errno));
      threads_.push_back(thread);
    }
  } while (threads_.size() != known);
}

Frozen::~Frozen() {
  for (const pid_t thread : threads_) ::ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
}

void wrong_options(const std::string& what) {
  std::fprintf(stderr, "wrong options: %s\n", what.c_str());
  ::_exit(64);
}

void clean_environment() {
  std::vector<std::string> doomed;
  for (char** e = environ; *e; ++e)
    if (const std::string_view v(*e);
        v.starts_with("DLOCK_") && !v.starts_with("DLOCK_TEST_MUTANT="))
      doomed.emplace_back(*e, std::strcspn(*e, "="));
  for (const auto& name : doomed) ::unsetenv(name.c_str());
}

Process Process::start(const Spawn& s) {
  std::vector<std::string> args = s.argv, vars;
  for (char** e = environ; *e; ++e) {
    const std::string_view var(*e), name = var.substr(0, var.find('='));
    if (std::none_of(s.env.begin(), s.env.end(), [&](const auto& x) { return x.first == name; }))
      vars.emplace_back(var);
  }
  for (const auto& [name, value] : s.env) vars.push_back(name + "=" + value);
  std::vector<char*> argv = pointers(args), env = pointers(vars);
  std::vector<int> moved(s.fds.size());

  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) become(s, argv.data(), env.data(), moved);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) give_up(std::string("fork: ") + std::strerror(errno));
  // parent and child both call it: either may be first
  if (s.place == Spawn::Place::own_group) ::setpgid(pid, pid);
  return Process(pid, Fd(int(::syscall(SYS_pidfd_open, pid, 0))));
}

Process::Process(Process&& o) noexcept
    : pid_(std::exchange(o.pid_, -1)), pidfd_(std::move(o.pidfd_)), status_(o.status_) {}

Process::~Process() {
  if (pid_ < 0 || status_) return;
  ::kill(pid_, SIGKILL);
  ::kill(pid_, SIGCONT);
  wait(5);
}

std::optional<int> Process::wait(double seconds) {
  const double until = boot_now() + seconds;
  while (!status_) {
    int status = 0;
    const pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == pid_) return status_ = status;
    if (got < 0 && errno != EINTR) give_up(std::string("waitpid: ") + std::strerror(errno));
    const int left = milliseconds_until(until);
    if (left == 0) break;
    pollfd p{pidfd_.get(), POLLIN, 0};
    ::poll(&p, 1, left);
  }
  return status_;
}

bool Process::wait_stopped(double seconds) {
  for (const double until = boot_now() + seconds;;) {
    siginfo_t info{};
    if (::waitid(P_PID, id_t(pid_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_)
      return true;
    if (boot_now() >= until) return false;
    ::poll(nullptr, 0, 2);
  }
}

void Process::signal(int sig) const noexcept {
  if (!status_) ::kill(pid_, sig);  // not reaped: the pid is still its own
}

std::string describe(std::optional<int> status) {
  if (!status) return "still running";
  if (WIFEXITED(*status)) return "exit " + std::to_string(WEXITSTATUS(*status));
  const int sig = WTERMSIG(*status);
  const char* name = ::sigabbrev_np(sig);
  return "signal " + std::to_string(sig) + (name ? std::string(" (") + name + ")" : "");
}

std::string read_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[16384];
  for (ssize_t n; fd && (n = ::read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, std::size_t(n));
  return text;
}

std::vector<pid_t> carriers(const std::string& name, const std::string& value) {
  const std::string wanted = name + "=" + value;
  std::vector<pid_t> found;
  each_process([&](pid_t pid) {
    // The environ file is empty once the address space is gone, so a zombie has none.
    const std::string env = read_file("/proc/" + std::to_string(pid) + "/environ");
    for (std::size_t at = 0, end; at < env.size(); at = end + 1) {
      end = std::min(env.find('\0', at), env.size());
      if (std::string_view(env).substr(at, end - at) == wanted) return found.push_back(pid);
    }
  });
  return found;
}

std::vector<pid_t> carriers_after(const std::string& name, const std::string& value,
                                  double seconds) {
  for (const double until = boot_now() + seconds;;) {
    auto left = carriers(name, value);
    if (left.empty() || boot_now() >= until) return left;
    ::poll(nullptr, 0, 10);
  }
}

void kill_carriers(const std::string& name, const std::string& value) {
  for (const double until = boot_now() + 5; boot_now() < until;) {
    const auto left = carriers(name, value);
    if (left.empty()) return;
    for (pid_t pid : left) {
      // A member that forks and exits before its kill is caught through its group, which the kernel
      // kills as a whole.
      if (const pid_t group = ::getpgid(pid); group > 1 && group != ::getpgrp())
        ::kill(-group, SIGKILL);
      ::kill(pid, SIGKILL);
    }
  }
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code ec;
  for (std::filesystem::directory_iterator task("/proc/" + std::to_string(pid) + "/task", ec), end;
       !ec && task != end; task.increment(ec)) {
    const std::string text = read_file(task->path().string() + "/children");
    for (const char* p = text.c_str(); *p;) {
      char* after = nullptr;
      const long n = std::strtol(p, &after, 10);
      if (after == p) break;
      if (n > 0) found.push_back(pid_t(n));
      p = after + std::strspn(after, " \n");
    }
  }
  return found;
}

std::string command_line(pid_t pid) {
  std::string text = read_file("/proc/" + std::to_string(pid) + "/cmdline");
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

Pipe::Pipe() {
  int p[2];
  if (::pipe2(p, O_CLOEXEC) != 0) give_up(std::string("pipe: ") + std::strerror(errno));
  read_end.reset(p[0]);
  write_end.reset(p[1]);
}

Lines::Lines(Fd fd) : fd_(std::move(fd)) { ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK); }

bool Lines::fill(double until) {  // false: nothing new, in time or for ever
  while (!ended_) {
    char buffer[4096];
    const ssize_t n = ::read(fd_.get(), buffer, sizeof buffer);
    if (n > 0) {
      text_.append(buffer, std::size_t(n));
      return true;
    }
    // A FIFO that has never had a writer reads as ended; poll can tell the difference.
    pollfd p{fd_.get(), POLLIN, 0};
    const int left = milliseconds_until(until);
    if (::poll(&p, 1, left) > 0 && (p.revents & POLLIN) == 0) {
      ended_at_ = boot_now();
      ended_ = true;
    } else if (left == 0) {
      return false;
    }
  }
  return false;
}

std::optional<std::string> Lines::next(double seconds) {
  for (const double until = boot_now() + seconds;;) {
    if (const auto end = text_.find('\n'); end != text_.npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return line;
    }
    if (!fill(until)) return std::nullopt;
  }
}

bool Lines::wait_end(double seconds) {
  for (const double until = boot_now() + seconds; fill(until);) {}
  return ended_;
}

Output read_all(int fd, double seconds) {
  Output out;
  for (const double until = boot_now() + seconds;;) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, milliseconds_until(until)) == 0) return out;
    char buffer[4096];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) {  // a pty's master returns EIO when the last slave is closed
      out.complete = n == 0 || errno == EIO;
      return out;
    }
    out.text.append(buffer, std::size_t(n));
  }
}

}  // namespace dlock::test
