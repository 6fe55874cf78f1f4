// SPDX-License-Identifier: Apache-2.0
// `pty_drive [--bound SECONDS] COMMAND [ARG...] <SCRIPT` runs COMMAND as the leader of a session on
// a terminal of its own (without echo) and follows SCRIPT, one step per line; each step has the
// bound (15 s):
//
//   expect TEXT     the terminal shows TEXT, after what the last expect found
//   reject TEXT     the terminal has not shown TEXT since what the last expect found
//   type TEXT       types TEXT; \n \r \t \e \\ and \xHH are understood
//   file PATH       PATH exists and is not empty
//   count N PATH TEXT    at least N lines of PATH hold TEXT
//   stopped PATH    the process whose pid is in the file PATH is stopped
//   alive PATH, gone PATH    the process whose pid is in the file PATH lives; is gone
//   signal N PATH   sends signal N to the process whose pid is in the file PATH
//   hangup          the terminal hangs up
//   end STATUS      COMMAND ends like this: `end exit 3`, `end signal 2 (INT)`
//
// At the end no process of COMMAND may be left. Prints the terminal's output. Status 0, or 1 with
// the reason on stderr.
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include "support/process.hpp"
#include "support/pty.hpp"

using namespace dlock::test;

namespace {

std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'e': out += '\x1b'; break;
      case 'x': out += char(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16)), i += 2; break;
      default: out += text[i];
    }
  }
  return out;
}

template <class F>
bool within(double seconds, F is_so) {
  for (const double until = boot_now() + seconds;;) {
    if (is_so()) return true;
    if (boot_now() >= until) return false;
    ::poll(nullptr, 0, 5);
  }
}

pid_t pid_in(const std::string& path) { return pid_t(std::atoi(read_file(path).c_str())); }

char state_of(pid_t pid) {  // '-': gone
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto end = stat.rfind(')');
  return end == stat.npos || end + 2 >= stat.size() ? '-' : stat[end + 2];
}

bool is_gone(pid_t pid) {
  const char s = state_of(pid);
  return s == '-' || s == 'Z' || s == 'X';
}

int lines_with(const std::string& path, const std::string& text) {
  const std::string all = read_file(path);
  int n = 0;
  for (std::size_t at = 0, end; (end = all.find('\n', at)) != all.npos; at = end + 1)
    if (all.substr(at, end - at).find(text) != std::string::npos) ++n;
  return n;
}

struct Script {
  Terminal& terminal;
  Process& command;
  double bound;

  bool step(const std::string& verb, const std::string& rest) {
    if (verb == "expect") return terminal.expect(unescape(rest), bound);
    if (verb == "reject")
      return terminal.drain(0),
             terminal.shown().find(unescape(rest), terminal.found()) == std::string::npos;
    if (verb == "type") return terminal.type(unescape(rest)), true;
    if (verb == "file") return within(bound, [&] { return !read_file(rest).empty(); });
    if (verb == "count") {
      const auto a = rest.find(' '), b = rest.find(' ', a + 1);
      if (b == rest.npos) give_up("pty_drive: count N PATH TEXT");
      return within(bound, [&] {
        return lines_with(rest.substr(a + 1, b - a - 1), rest.substr(b + 1)) >=
               std::atoi(rest.c_str());
      });
    }
    if (verb == "stopped") return within(bound, [&] { return state_of(pid_in(rest)) == 'T'; });
    if (verb == "gone") return within(bound, [&] { return is_gone(pid_in(rest)); });
    if (verb == "alive") return !is_gone(pid_in(rest));
    if (verb == "signal") {
      const auto space = rest.find(' ');
      const pid_t pid = space == rest.npos ? 0 : pid_in(rest.substr(space + 1));
      return pid > 1 && ::kill(pid, std::atoi(rest.c_str())) == 0;
    }
    if (verb == "hangup") return terminal.hang_up(), true;
    if (verb == "end") {
      // The output must be read, or a command that writes at its end would block for ever.
      const bool ended =
          within(bound, [&] { return terminal.drain(0), command.wait(0).has_value(); });
      if (!ended || describe(command.wait(0)) != rest)
        std::fprintf(stderr, "pty_drive: the command: %s\n", describe(command.wait(0)).c_str());
      return ended && describe(command.wait(0)) == rest;
    }
    give_up("pty_drive: unknown step '" + verb + "'");
  }
};

}  // namespace

int main(int argc, char** argv) {
  double bound = 15;
  int first = 1;
  if (argc > 2 && std::strcmp(argv[1], "--bound") == 0) bound = std::atof(argv[2]), first = 3;
  if (argc <= first)
    return std::fprintf(stderr, "usage: pty_drive [--bound SECONDS] COMMAND [ARG...] <SCRIPT\n"),
           64;

  Pty pty;
  termios modes{};
  ::tcgetattr(pty.slave.get(), &modes);
  modes.c_lflag &= tcflag_t(~ECHO);
  ::tcsetattr(pty.slave.get(), TCSANOW, &modes);
  const std::string mark = std::to_string(::getpid());
  Spawn s;
  s.argv.assign(argv + first, argv + argc);
  s.env = {{"DLOCK_TEST_PTY", mark}};
  s.place = Spawn::Place::own_session;
  s.tty = pty.slave.get();
  Process command = Process::start(s);
  pty.close_slave();
  Terminal terminal(std::move(pty.master));
  Script script{terminal, command, bound};

  bool good = true;
  std::string line;
  for (int number = 1; good && std::getline(std::cin, line); ++number) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == line.npos || line[begin] == '#') continue;
    const auto space = line.find(' ', begin);
    const std::string rest = space == line.npos ? "" : line.substr(space + 1);
    good = script.step(line.substr(begin, space - begin), rest);
    if (!good) std::fprintf(stderr, "pty_drive: step %d failed: %s\n", number, line.c_str());
  }
  if (good)
    for (pid_t pid : carriers_after("DLOCK_TEST_PTY", mark, 5)) {
      good = false;
      std::fprintf(stderr, "pty_drive: left behind: %d %s\n", int(pid), command_line(pid).c_str());
    }
  terminal.drain(0);
  kill_carriers("DLOCK_TEST_PTY", mark);
  std::fputs(terminal.shown().c_str(), stdout);
  return good ? 0 : 1;
}
