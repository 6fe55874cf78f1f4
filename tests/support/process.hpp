// SPDX-License-Identifier: Apache-2.0
// Processes under test. Every wait has a bound, every process is found by its environment and never
// by its name, and processes left by a test are killed when the test ends.
#pragma once
#include <sys/types.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "support/temp_dir.hpp"
#include "util/fd.hpp"

namespace dlock::test {

double boot_now() noexcept;  // CLOCK_BOOTTIME in seconds, as in the events that dlock writes

// Ends the test program with status 1: a requirement is missing here, so the test proves nothing.
[[noreturn]] void give_up(const std::string& what);

// Stops a process as a debugger does, each of its threads, until the scope ends, and by the thread
// that made it. (SIGSTOP would not last, where the kernel continues a group that an end orphans.)
class Frozen {
 public:
  explicit Frozen(pid_t);
  ~Frozen();
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  std::vector<pid_t> threads_;
};

struct Spawn {
  enum class Place { here, own_group, own_session };
  std::vector<std::string> argv;                              // [0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> env = {};  // added to ours
  // {number in the child, descriptor of ours; -1: closed}
  std::vector<std::pair<int, int>> fds = {};
  Place place = Place::own_group;
  // the slave of a pty: the child's 0, 1, 2 and controlling terminal (needs own_session)
  int tty = -1;
  std::vector<int> ignored = {};  // signals
  std::vector<int> blocked = {};
};

// A child of this program. No signals are ignored or blocked in it, whatever this program has. The
// destructor kills and reaps it if it still runs.
class Process {
 public:
  static Process start(const Spawn&);
  Process(Process&&) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const noexcept { return pid_; }
  // The wait status, or nothing if it still runs after `seconds`. May be called again.
  std::optional<int> wait(double seconds);
  void signal(int sig) const noexcept;  // nothing if it has ended
  // Waits for a stop (WUNTRACED): true once it has stopped, false after `seconds`.
  bool wait_stopped(double seconds);

 private:
  Process(pid_t pid, Fd fd) noexcept : pid_(pid), pidfd_(std::move(fd)) {}
  pid_t pid_;
  Fd pidfd_;
  std::optional<int> status_;
};

// "exit 3", "signal 15 (TERM)", "still running".
std::string describe(std::optional<int> status);

// Living processes (zombies are dead) whose initial environment contains `name=value`, with any
// parent.
std::vector<pid_t> carriers(const std::string& name, const std::string& value);
// Waits until there are none. Returns those left after `seconds`.
std::vector<pid_t> carriers_after(const std::string& name, const std::string& value,
                                  double seconds);
void kill_carriers(const std::string& name, const std::string& value);

std::vector<pid_t> children_of(pid_t pid);
std::string command_line(pid_t pid);  // as in /proc, spaces between; empty when it is gone

struct Pipe {
  Fd read_end, write_end;  // both close-on-exec
  Pipe();
};

// Lines from a descriptor with a bound on each wait. Takes the descriptor; makes it non-blocking.
class Lines {
 public:
  explicit Lines(Fd fd);
  // without '\n'; nothing: no line in time, or the end
  std::optional<std::string> next(double seconds);
  bool ended() const noexcept { return ended_; }  // every writer has closed
  // reads on until the end; keeps lines for next()
  bool wait_end(double seconds);
  double ended_at() const noexcept { return ended_at_; }

 private:
  bool fill(double until);
  Fd fd_;
  std::string text_;
  bool ended_ = false;
  double ended_at_ = 0;
};

// Reads until end of file or the bound; `complete` says which.
struct Output {
  std::string text;
  bool complete = false;
};
Output read_all(int fd, double seconds);

std::string read_file(const std::string& path);  // empty if there is none

}  // namespace dlock::test
