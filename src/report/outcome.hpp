// SPDX-License-Identifier: Apache-2.0
// How dlock ends: Policy decides it, --status and --metrics-file show it, finish() carries it out.
#pragma once
#include <cstdint>

namespace dlock::run {

// An exit status, or the signal that ended the command, and the reason.
struct Outcome {
  enum class How : std::uint8_t {
    command,
    signal,
    max_run,
    revoked,
    lost,
    failed,
    not_started,
    busy,
    error,
    // only without a job
    max_hold,
    caller_gone
  };
  bool by_signal = false;
  int value = 0;
  How how = How::command;

  // Returns whether dlock saw the end of the job.
  bool job_ended() const noexcept { return how <= How::revoked; }
};

const char* result_name(Outcome::How) noexcept;  // for the exit event

// Ends this process as `outcome` says. A signal is raised with the default action, and without a
// core dump of dlock.
[[noreturn]] void finish(Outcome);

}  // namespace dlock::run
