// SPDX-License-Identifier: Apache-2.0
// The command finds the environment that dlock was started with, which does not disturb dlock;
// signals sent to dlock reach the command.
#include <sys/wait.h>
#include <csignal>
#include <iterator>
#include <regex>
#include <sstream>
#include "signal_run.hpp"

namespace dlock::test {
namespace {

// Everything that exec passes on, except the environment. Not read through a shell, which sets some
// of it anew.
const std::vector<std::string> show_state{"cat",
                                          "/proc/self/status",
                                          "/proc/self/limits",
                                          "/proc/self/oom_score_adj",
                                          "/proc/self/personality",
                                          "/proc/self/cgroup",
                                          "/proc/self/timerslack_ns",
                                          "/proc/self/stat"};

// Without values that differ between processes. The command may be in its own cgroup below ours.
std::string comparable(const std::string& text) {
  static const std::regex of_one_process(
      "(Name|Tgid|Ngid|Pid|PPid|TracerPid|FDSize|NStgid|NSpid|NSpgid|NSsid|Vm[A-Za-z]+|Rss[A-Za-z]+"
      "|SigQ|HugetlbPages|"
      "(non)?voluntary_ctxt_switches|x86_Thread_features[a-z_]*):.*");
  static const std::regex own_cgroup("^(0::.*)/dlock-[0-9]+-[0-9]+$"), stat("^[0-9]+ \\(.*\\) .*");
  std::istringstream in(text);
  std::string all;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_match(line, of_one_process)) continue;
    if (std::regex_match(line, stat)) {  // nice and real-time priority, scheduling policy
      std::istringstream fields(line.substr(line.rfind(')') + 2));
      const std::vector<std::string> f{std::istream_iterator<std::string>(fields), {}};
      line = "nice " + f.at(16) + ", priority " + f.at(37) + ", policy " + f.at(38);
    }
    line = std::regex_replace(line, own_cgroup, "$1");
    all += (line == "0::" ? "0::/" : line) + "\n";
  }
  return all;
}

std::string differences(const std::string& wanted, const std::string& got) {
  std::istringstream a(wanted), b(got);
  std::string all;
  for (std::string x, y;; x.clear(), y.clear()) {
    const bool more_of_a = bool(std::getline(a, x)), more_of_b = bool(std::getline(b, y));
    if (!more_of_a && !more_of_b) return all;
    if (x != y) all += "\n    without dlock '" + x + "', with it '" + y + "'";
  }
}

struct Entry {
  const char* name;
  std::vector<int> ignored, blocked;
};

void same_state(Tally& tally) {
  const std::vector<Entry> entries{
      {"as usual", {}, {}},
      {"nohup", {SIGHUP}, {}},
      {"a background job of sh", {SIGINT, SIGQUIT}, {}},
      {"everything ignored",
       {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGTSTP,
        SIGTTIN, SIGTTOU, SIGWINCH, SIGBUS, SIGXFSZ, SIGRTMIN},
       {}},
      {"SIGCHLD ignored", {SIGCHLD}, {}},
      {"SIGPIPE ignored", {SIGPIPE}, {}},
      {"some blocked", {}, {SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM, SIGRTMIN + 3}},
      {"both", {SIGHUP, SIGCHLD}, {SIGHUP, SIGCHLD, SIGTERM}},
  };
  for (const Mode& mode : {plain, foreground, pty, pty_own})
    for (const Entry& e : entries) {
      const RunAsked asked{
          .mode = mode, .job = show_state, .ignored = e.ignored, .blocked = e.blocked};
      const std::string wanted = comparable(run_direct(asked));
      DlockRun run(asked);
      std::string got;
      while (const auto line = run.out().next(20)) got += *line + "\n";
      const std::string what = std::string(e.name) + ", " + mode.name;
      tally.check(run.end() == "exit 0", what + ": " + run.end() + run.complaint());
      got = comparable(got);
      tally.check(got == wanted && got.find("SigBlk:") != got.npos,
                  what + ": the command's state differs:" + differences(wanted, got));
    }
}

void ignored_signals(Tally& tally) {
  for (const Mode& mode : {plain, foreground, pty, pty_own}) {
    for (int sig : {SIGHUP, SIGINT, SIGUSR1}) {
      const std::string what = std::string(mode.name) + ", ignored at entry: " + describe(sig);
      // While waiting: dlock stays in the queue, gets the lock, and runs.
      DlockRun waiting({.mode = mode,
                        .backend = "fake:?grant_after=700ms",
                        .job = {"sh", "-c", "exit 7"},
                        .ignored = {sig}});
      waiting.events().wait("waiting", 20);
      waiting.dlock().signal(sig);
      tally.check(waiting.end() == "exit 7",
                  what + ", waiting: " + waiting.end() + waiting.complaint());
      // While running: the command and dlock survive until the next renewal; TERM still works.
      DlockRun running({.mode = mode,
                        .options = {"--ttl", "5s"},
                        .job = {"sh", "-c", "echo up; exec sleep 60"},
                        .ignored = {sig}});
      tally.check(running.out().next(20) == "up", what + ": did not start" + running.complaint());
      running.dlock().signal(sig);
      tally.check(running.events().wait("renewed", 20).has_value(),
                  what + ": it ended" + running.complaint());
      running.dlock().signal(SIGTERM);
      tally.check(running.end() == describe(SIGTERM),
                  what + ", running: " + running.end() + running.complaint());
    }
  }
}

void blocked_signals(Tally& tally) {
  for (const Mode& mode : {plain, foreground}) {
    // The command has TERM blocked, so it dies of KILL after --kill-after; dlock itself handles
    // TERM.
    DlockRun run({.mode = mode,
                  .options = {"-k", "300ms"},
                  .job = {"sh", "-c", "echo up; exec sleep 60"},
                  .blocked = {SIGTERM, SIGINT}});
    tally.check(run.out().next(20) == "up",
                "TERM blocked at entry: did not start" + run.complaint());
    run.dlock().signal(SIGTERM);
    tally.check(run.end() == describe(SIGKILL),
                "TERM blocked at entry: " + run.end() + run.complaint());
    DlockRun waiting({.mode = mode,
                      .backend = "fake:?grant_after=60s",
                      .job = {"true"},
                      .blocked = {SIGTERM, SIGINT}});
    waiting.events().wait("waiting", 20);
    waiting.dlock().signal(SIGTERM);
    tally.check(waiting.end() == describe(SIGTERM),
                "TERM blocked at entry, waiting: " + waiting.end() + waiting.complaint());
  }
}

void status_without_sigchld(Tally& tally) {
  for (const Mode& mode : {plain, foreground, pty}) {
    DlockRun run({.mode = mode, .job = {"sh", "-c", "sleep 0.05; exit 7"}, .ignored = {SIGCHLD}});
    tally.check(run.end() == "exit 7",
                std::string(mode.name) + ", SIGCHLD ignored: " + run.end() + run.complaint());
  }
}

// `sleep 60 & exec dlock ...`: dlock neither waits for an earlier child nor kills it, whatever
// happens.
void children_from_before(Tally& tally) {
  const std::vector<std::string> with_child{"sh", "-c", "sleep 60 & exec \"$@\"", "sh"};
  // in a pty the end of its leader would send that child a hang-up
  for (const Mode& mode : {plain, foreground}) {
    const std::string what = std::string(mode.name) + ", a child from before: ";
    DlockRun run({.mode = mode, .job = {"sh", "-c", "exit 7"}, .before = with_child});
    tally.check(run.end() == "exit 7", what + run.end() + run.complaint());
    tally.check(run.left(0).size() == 1, what + std::to_string(run.left(0).size()) +
                                             " processes left, expected that child only");

    DlockRun swept(
        {.mode = mode, .job = {"sh", "-c", "echo up; exec sleep 61"}, .before = with_child});
    tally.check(swept.out().next(20) == "up", what + "did not start" + swept.complaint());
    // the guard is the child with children; without it dlock has to sweep
    std::vector<pid_t> spared;
    for (pid_t pid : children_of(swept.dlock().pid()))
      children_of(pid).empty() ? spared.push_back(pid) : void(::kill(pid, SIGKILL));
    tally.check(swept.end() == "exit 125",
                what + "guard killed: " + swept.end() + swept.complaint());
    tally.check(spared.size() == 1 && swept.left(0) == spared,
                what + "it did not survive the sweep");
  }
  DlockRun zombie({.job = {"sh", "-c", "sleep 0.05; exit 7"},
                   .before = {"sh", "-c", "true & exec \"$@\"", "sh"}});
  tally.check(zombie.end() == "exit 7",
              "a child from before that ends: " + zombie.end() + zombie.complaint());
}

}  // namespace

bool forwarded() {
  Tally tally("signals forwarded to the command: HUP USR1 USR2 ALRM WINCH CONT 34-64");
  std::vector<int> signals{SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};
  for (int n = 34; n <= 64; ++n) signals.push_back(n);
  for (const Mode& mode : {plain, foreground, pty, pty_own}) {
    DlockRun run({.mode = mode, .job = {signal_job(), "print"}});
    tally.check(run.out().next(20) == "up",
                std::string(mode.name) + ": did not start" + run.complaint());
    for (int n : signals) {
      run.dlock().signal(n);
      const std::string line = run.out().next(20).value_or("nothing");
      tally.check(line == "got " + std::to_string(n), std::string(mode.name) + ": sent " +
                                                          std::to_string(n) + ", it " + line +
                                                          run.complaint());
    }
    run.dlock().signal(SIGTERM);
    tally.check(run.out().next(20) == "got 15", std::string(mode.name) + ": TERM did not arrive");
    tally.check(!run.out().next(20), std::string(mode.name) + ": a signal arrived twice");
    tally.check(run.end() == "exit 0", std::string(mode.name) + ": " + run.end() + run.complaint());
  }
  return tally.report();
}

bool state_at_entry() {
  Tally tally("state at entry: ignored and blocked signals, SIGCHLD, limits, children from before");
  same_state(tally);
  ignored_signals(tally);
  blocked_signals(tally);
  status_without_sigchld(tally);
  children_from_before(tally);
  return tally.report();
}

}  // namespace dlock::test
