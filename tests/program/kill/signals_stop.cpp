// SPDX-License-Identifier: Apache-2.0
// Stops: none reaches a command that was asked to end, and dlock does not stay stopped behind a
// command that goes on.
#include <poll.h>
#include <csignal>
#include <functional>
#include "signal_run.hpp"

namespace dlock::test {
namespace {

bool until_true(const std::function<bool()>& what) {
  for (const double end = boot_now() + 20; boot_now() < end; ::poll(nullptr, 0, 2))
    if (what()) return true;
  return false;
}

std::string field(pid_t pid, const std::string& name) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/status");
  const auto at = text.find("\n" + name + ":\t");
  if (at == text.npos) return {};
  const auto from = at + name.size() + 3;
  return text.substr(from, text.find('\n', from) - from);
}

bool is_stopped(pid_t pid) { return field(pid, "State").starts_with("T"); }

// The signals of a batch are read by number: WINCH comes behind TSTP.
void after_term(Tally& tally) {
  for (const Mode& mode : {plain, foreground, pty_own}) {
    const std::string what = std::string(mode.name) + ", TSTP after TERM: ";
    DlockRun run({.mode = mode,
                  .job = {"sh", "-c",
                          "trap 'echo term' TERM; trap 'echo cleaned; exit 7' WINCH; echo up; "
                          "while :; do sleep 0.02; done"}});
    tally.check(run.out().next(20) == "up", what + "did not start" + run.complaint());
    run.dlock().signal(SIGTERM);
    tally.check(run.out().next(20) == "term", what + "TERM did not arrive" + run.complaint());
    run.dlock().signal(SIGTSTP);
    run.dlock().signal(SIGWINCH);
    tally.check(run.out().next(20) == "cleaned", what + "it was stopped" + run.complaint());
    tally.check(run.end() == "exit 7", what + run.end() + run.complaint());
  }
}

// What a shell with job control is to dlock, which would not stop if nobody could continue it: a
// parent in its session and in another process group, that takes a stop for no end.
constexpr const char* parent =
    "import os, sys\n"
    "pid = os.fork()\n"
    "if pid == 0:\n"
    "    os.setpgid(0, 0)\n"
    "    os.execvp(sys.argv[1], sys.argv[1:])\n"
    "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";

struct Stoppable {
  DlockRun run{{.mode = foreground,
                .options = {"--ttl", "1m"},
                .job = {"sh", "-c",
                        "trap 'echo winch' WINCH; trap 'exit 7' USR1; echo $$; "
                        "while :; do sleep 0.02; done"},
                .before = {"python3", "-c", parent}}};
  pid_t job = 0, guard = 0, dlock = 0;

  explicit Stoppable(Tally& tally) {
    job = std::stoi(run.out().next(20).value_or("0"));
    guard = job > 0 ? std::stoi("0" + field(job, "PPid")) : 0;
    dlock = guard > 0 ? std::stoi("0" + field(guard, "PPid")) : 0;
    tally.check(dlock > 1, "below a parent that is a shell to it: did not start" + run.complaint());
  }
  // The guard has looked at what `change` did to the job, and waits again.
  bool guard_sees(const std::function<void()>& change) const {
    const char* const waits = "voluntary_ctxt_switches";
    const std::string before = field(guard, waits);
    change();
    return until_true(
        [&] { return field(guard, waits) != before && field(guard, "State").starts_with("S"); });
  }
  // dlock is awake and forwards.
  void goes_on(Tally& tally, const std::string& what) {
    ::kill(dlock, SIGWINCH);
    tally.check(run.out().next(20) == "winch",
                what + "dlock is " + field(dlock, "State") + run.complaint());
  }
  void end(Tally& tally, const std::string& what) {
    ::kill(dlock, SIGUSR1);
    tally.check(run.end() == "exit 7", what + run.end() + run.complaint());
  }
};

void continued_alone(Tally& tally) {
  const std::string what = "the command alone is continued: ";
  Stoppable it(tally);
  if (it.dlock <= 1) return;
  for (const int sig : {SIGTSTP, SIGSTOP}) {
    ::kill(it.job, sig);
    tally.check(until_true([&] { return is_stopped(it.dlock); }), what + "dlock does not stop");
    ::kill(it.job, SIGCONT);
    tally.check(until_true([&] { return !is_stopped(it.dlock); }), what + "dlock stays stopped");
    it.goes_on(tally, what);
  }
  it.end(tally, what);
}

// What the guard said of the stop is not read yet when CONT comes.
void old_report(Tally& tally) {
  const std::string what = "CONT before the stop is read: ";
  Stoppable it(tally);
  if (it.dlock <= 1) return;
  for (int i = 0; i < 10; ++i) {
    ::kill(it.dlock, SIGSTOP);
    tally.check(until_true([&] { return is_stopped(it.dlock); }), what + "SIGSTOP");
    tally.check(it.guard_sees([&] { ::kill(it.job, SIGTSTP); }), what + "the stop is not seen");
    tally.check(it.guard_sees([&] { ::kill(it.job, SIGCONT); }), what + "the CONT is not seen");
    ::kill(it.dlock, SIGCONT);
    it.goes_on(tally, what);
  }
  it.end(tally, what);
}

}  // namespace

bool stops() {
  Tally tally("stops: behind TERM, and before CONT");
  after_term(tally);
  continued_alone(tally);
  old_report(tally);
  return tally.report();
}

}  // namespace dlock::test
