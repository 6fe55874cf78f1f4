// SPDX-License-Identifier: Apache-2.0
// dlock ends as its command ended.
#include <csignal>
#include <set>
#include "signal_run.hpp"

namespace dlock::test {

bool exit_statuses(bool full) {
  Tally tally("exit statuses 0-255 of the command, without a terminal and in a pty");
  std::vector<int> statuses;
  for (int n = 0; n < 256; ++n)
    if (full || n < 4 || n % 16 == 0 || (n >= 60 && n <= 80) || n >= 120) statuses.push_back(n);
  const std::vector<Mode> modes{plain, pty};
  in_parallel(statuses.size() * modes.size(), [&](std::size_t k) {
    const std::string status = std::to_string(statuses[k / modes.size()]);
    DlockRun run({.mode = modes[k % modes.size()], .job = {"sh", "-c", "exit " + status}});
    const std::string end = run.end();
    tally.check(end == "exit " + status, "exit " + status + " became " + end + run.complaint());
  });
  return tally.report();
}

bool killed_by_each_signal() {
  Tally tally("command killed by each signal of 1-64 that kills, in all four group modes");
  std::vector<int> signals;
  const std::set<int> harmless{SIGCHLD, SIGCONT, SIGURG,  SIGWINCH,
                               SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
  for (int n = 1; n <= 64; ++n)
    if (harmless.count(n) == 0) signals.push_back(n);
  const std::vector<Mode> modes{plain, foreground, pty, pty_own};
  in_parallel(signals.size() * modes.size(), [&](std::size_t k) {
    const int n = signals[k / modes.size()];
    const Mode& mode = modes[k % modes.size()];
    DlockRun run({.mode = mode,
                  .options = {"--ttl", "5s"},
                  .job = {"sh", "-c", "ulimit -c 0; kill -" + std::to_string(n) + " $$"}});
    const std::string end = run.end(), wanted = describe(n);
    // 32 and 33 belong to glibc: a process cannot always die by them.
    const bool glibcs = (n == 32 || n == 33) && end == "exit " + std::to_string(128 + n);
    tally.check(end == wanted || glibcs,
                std::string(mode.name) + ": " + wanted + " became " + end + run.complaint());
    tally.check(run.left().empty(),
                std::string(mode.name) + ": " + wanted + ": processes are left");
  });
  return tally.report();
}

}  // namespace dlock::test
