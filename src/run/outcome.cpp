// SPDX-License-Identifier: Apache-2.0
#include "run/outcome.hpp"
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include "run/signals.hpp"

namespace dlock::run {

const char* result_name(Outcome::How how) noexcept {
  switch (how) {
    case Outcome::How::command: return "command";
    case Outcome::How::signal: return "signal";
    case Outcome::How::max_run: return "max_run";
    case Outcome::How::revoked: return "revoked";
    case Outcome::How::lost: return "lost";
    case Outcome::How::failed: return "failed";
    case Outcome::How::not_started: return "not_started";
    case Outcome::How::busy: return "busy";
    case Outcome::How::error: return "error";
    case Outcome::How::max_hold: return "max_hold";
    case Outcome::How::caller_gone: return "caller_gone";
  }
  return "?";
}

void finish(Outcome outcome) {
  if (outcome.by_signal) {
    ::prctl(PR_SET_DUMPABLE, 0);  // the job's core is of interest, ours is not
    ::signal(outcome.value, SIG_DFL);
    take_default(outcome.value);
    ::_exit(128 + outcome.value);  // pid 1 of a container does not die of its own signal
  }
  ::_exit(outcome.value);
}

}  // namespace dlock::run
