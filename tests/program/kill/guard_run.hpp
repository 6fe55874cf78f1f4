// SPDX-License-Identifier: Apache-2.0
// A `dlock run` whose parties are stopped and killed. The programs come from $DLOCK, $DLOCK_FAKE
// and $RESISTING_TREE.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include "support/options.hpp"
#include "support/process.hpp"
#include "support/status_events.hpp"

namespace dlock::test {

inline constexpr double patience = 20;

inline bool until_true(const std::function<bool()>& what) {
  for (const double end = boot_now() + patience; boot_now() < end; ::poll(nullptr, 0, 5))
    if (what()) return true;
  return false;
}

// One `dlock run` on its own `file:` store; its messages are on a pipe.
struct Run {
  TempDir dir;
  Pipe status;
  std::string err = dir / "err";
  std::optional<Process> dlock;
  std::optional<EventStream> events;

  Run() { ::mkdir((dir / "locks").c_str(), 0700); }
  ~Run() { kill_carriers("DLOCK_TEST_GUARD", dir / ""); }
  std::vector<std::string> command(std::vector<std::string> options) const {
    std::vector<std::string> argv{program_from("DLOCK"), "run", "-b", "file:" + (dir / "locks")};
    argv.insert(argv.end(), options.begin(), options.end());
    return argv;
  }
  Spawn spawn(std::vector<std::string> argv) const {
    static const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int errors = ::open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return {.argv = std::move(argv),
            .env = {{"DLOCK_TEST_GUARD", dir / ""}, {"HOME", dir / ""}},
            .fds = {{0, nothing}, {1, nothing}, {2, errors}, {9, status.write_end.get()}},
            .place = Spawn::Place::own_session};
  }
  void start(std::vector<std::string> options) {
    options.insert(options.begin(), {"--status", "9"});
    start_as(command(std::move(options)));
  }
  void start_as(std::vector<std::string> argv) {
    clean_environment();
    const Spawn s = spawn(std::move(argv));
    dlock.emplace(Process::start(s));
    ::close(s.fds[2].second);
    status.write_end.reset();
    events.emplace(std::move(status.read_end));
  }
  std::string says() const { return read_file(err); }
  std::string end() { return describe(dlock->wait(patience)); }
  // By its original process name; it renames itself soon.
  pid_t guard() const {
    pid_t found = 0;
    const auto look = [&] {
      for (const pid_t p : children_of(dlock->pid()))
        if (read_file("/proc/" + std::to_string(p) + "/comm") == "lock-guard\n") found = p;
      return found != 0;
    };
    if (!until_true(look)) FAIL("no guard; dlock says: " << says());
    return found;
  }
  // How a second contender that does not wait ends.
  std::string try_key(const std::string& key) const {
    const Spawn s = spawn(command({"--key", key, "-n", "--", "true"}));
    Process p = Process::start(s);
    ::close(s.fds[2].second);
    return describe(p.wait(patience));
  }
  // What `dlock inspect KEY` prints.
  std::string inspect(const std::string& key) const {
    Pipe out;
    Spawn s = spawn({program_from("DLOCK"), "inspect", "-b", "file:" + (dir / "locks"), key});
    s.fds[1].second = out.write_end.get();
    Process p = Process::start(s);
    ::close(s.fds[2].second);
    out.write_end.reset();
    return read_all(out.read_end.get(), patience).text;
  }
};

inline bool alive(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name = stat.rfind(')');
  return name != stat.npos && stat[name + 2] != 'Z' && stat[name + 2] != 'X';
}

// As a debugger does: a traced process that was killed stays with its tracer, and its parent's
// waitpid does not report it. So its tree is not dead.
class Traced {
 public:
  explicit Traced(pid_t pid) : pid_(pid) {
    if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0)
      give_up(std::string("ptrace: ") + std::strerror(errno));
  }
  bool killed() {
    return until_true(
        [&] { return dead_ || (dead_ = ::waitpid(pid_, nullptr, __WALL | WNOHANG) == pid_); });
  }
  // Killed, but its parent does not know yet.
  bool is_zombie() const { return !alive(pid_); }

 private:
  pid_t pid_;
  bool dead_ = false;
};

inline std::size_t descriptors(pid_t pid) {
  std::size_t n = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error))
    n += !entry.path().empty();
  return n;
}

}  // namespace dlock::test
