// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace dlock::run {

// How dlock ends: with an exit status, or by the signal that ended the command.
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
    // without a job
    max_hold,
    caller_gone
  };
  bool by_signal = false;
  int value = 0;
  How how = How::command;

  // Of a job: its end was seen.
  bool job_ended() const noexcept { return how <= How::revoked; }
};

const char* result_name(Outcome::How) noexcept;  // for the exit event

// Ends this process as `outcome` says. A signal is raised with its default disposition and without
// a core of our own.
[[noreturn]] void finish(Outcome);

}  // namespace dlock::run
