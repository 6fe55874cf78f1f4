// SPDX-License-Identifier: Apache-2.0
// Processes under test. Every wait has a bound, every process is found by what it carries and never by its name, and
// what a test leaves behind is killed when the test ends.
#pragma once
#include <sys/types.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "util/fd.hpp"

namespace dlock::test {

double boot_now() noexcept;  // CLOCK_BOOTTIME in seconds, as in the events that dlock writes

// Ends the test program with status 1: something it needs does not work here, so it can prove nothing.
[[noreturn]] void give_up(const std::string& what);

// A new directory below $TMPDIR, removed with everything in it at the end of the scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Spawn {
  enum class Place { here, own_group, own_session };
  std::vector<std::string> argv;                              // [0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> env = {};  // added to ours
  std::vector<std::pair<int, int>> fds = {};                  // {number in the child, descriptor of ours; -1: closed}
  Place place = Place::own_group;
  int tty = -1;                   // the slave of a pty: the child's 0, 1, 2 and controlling terminal (needs own_session)
  std::vector<int> ignored = {};  // signals
  std::vector<int> blocked = {};
};

// A child of this program. Its own signals are as if this program had none ignored or blocked. The destructor kills and
// reaps it if it still runs.
class Process {
 public:
  static Process start(const Spawn&);
  Process(Process&&) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const noexcept { return pid_; }
  // The wait status, or nothing if it still runs after `seconds`. May be asked again.
  std::optional<int> wait(double seconds);
  void signal(int sig) const noexcept;  // nothing if it has ended
  // Everything about a stop: true once it has stopped (WUNTRACED), false after `seconds`.
  bool wait_stopped(double seconds);

 private:
  Process(pid_t pid, Fd fd) noexcept : pid_(pid), pidfd_(std::move(fd)) {}
  pid_t pid_;
  Fd pidfd_;
  std::optional<int> status_;
};

// "exit 3", "signal 15 (TERM)", "still running".
std::string describe(std::optional<int> status);

// Living processes (zombies are dead) whose initial environment holds `name=value`, whoever's children they are.
std::vector<pid_t> carriers(const std::string& name, const std::string& value);
// Waits until there are none. Answers who is left after `seconds`.
std::vector<pid_t> carriers_after(const std::string& name, const std::string& value, double seconds);
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
  std::optional<std::string> next(double seconds);  // without '\n'; nothing: no line in time, or the end
  bool ended() const noexcept { return ended_; }    // every writer has closed
  bool wait_end(double seconds);                    // reads on until the end; keeps lines for next()
  double ended_at() const noexcept { return ended_at_; }

 private:
  bool fill(double until);
  Fd fd_;
  std::string text_;
  bool ended_ = false;
  double ended_at_ = 0;
};

// Reads until end of file or the bound; a bound that is reached is reported by `complete`.
struct Output {
  std::string text;
  bool complete = false;
};
Output read_all(int fd, double seconds);

std::string read_file(const std::string& path);  // empty if there is none

}  // namespace dlock::test
