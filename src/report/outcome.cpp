// SPDX-License-Identifier: Apache-2.0
#include "report/outcome.hpp"
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstddef>
#include "job/signals.hpp"

namespace dlock::run {

const char* result_name(Outcome::How how) noexcept {
  constexpr const char* names[] = {"command", "signal",   "max_run",     "revoked",
                                   "lost",    "failed",   "not_started", "busy",
                                   "error",   "max_hold", "caller_gone"};
  return names[static_cast<std::size_t>(how)];
}

void finish(Outcome outcome) {
  if (outcome.by_signal) {
    ::prctl(PR_SET_DUMPABLE, 0);  // a core dump of dlock would not help anybody
    ::signal(outcome.value, SIG_DFL);
    default_action(outcome.value);
    ::_exit(128 + outcome.value);  // PID 1 of a container does not die by its own signal
  }
  ::_exit(outcome.value);
}

}  // namespace dlock::run
