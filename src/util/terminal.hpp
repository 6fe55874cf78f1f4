// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>

namespace dlock {

// True if the descriptor is our controlling terminal and another process group has it. Then the
// input is for that group. poll(2) reports the input to us, too, but a read stops us or fails (EIO).
inline bool in_the_background(int terminal) noexcept {
  const pid_t foreground = ::tcgetpgrp(terminal);  // none: it is no terminal of ours, or hung up
  return foreground >= 0 && foreground != ::getpgrp();
}

}  // namespace dlock
