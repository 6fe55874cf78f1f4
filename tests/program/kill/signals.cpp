// SPDX-License-Identifier: Apache-2.0
// What signals do to `dlock run`, and exit statuses: `signals [--full] [--only GROUP] [--shots N]
// [--seed N]`; the groups are statuses, killed, random, forwarded,
// stops, entry. Programs: $DLOCK_FAKE,
// $SIGNAL_JOB.
#include <sys/prctl.h>
#include <csignal>
#include <cstdio>
#include "signal_run.hpp"
#include "support/options.hpp"

using namespace dlock::test;

int main(int argc, char** argv) {
  const Options o(argc, argv, {"--full"}, {"--only", "--seed", "--shots"});
  const bool full = o.has("--full");
  const std::string only = o.text("--only", "");
  const auto seed =
      static_cast<unsigned long>(o.number("--seed", long(std::random_device{}() >> 1)));
  const auto shots = std::size_t(o.number("--shots", full ? 2000 : 200));
  dlock_program(), signal_job();  // read before the environment is cleaned
  clean_environment();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);

  const std::vector<std::pair<std::string, std::function<bool()>>> groups{
      {"statuses", [&] { return exit_statuses(full); }},
      {"killed", killed_by_each_signal},
      {"random", [&] { return random_signals(shots, seed); }},
      {"forwarded", forwarded},
      {"stops", stops},
      {"entry", state_at_entry},
  };
  bool good = true, any = false;
  for (const auto& [name, run] : groups)
    if (only.empty() || only == name) any = true, good = run() && good;
  if (!any) give_up("--only " + only + ": no such group");
  return good ? 0 : 1;
}
