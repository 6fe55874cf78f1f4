// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/ioctl.h>
#include <unistd.h>
#include <cstdlib>
#include <string_view>

namespace dlock {

// Returns whether the descriptor is our controlling terminal and another process group is in the
// foreground. Then the input is for that group: poll(2) reports the input to us, too, but a read(2)
// stops us or fails (EIO).
inline bool in_the_background(int terminal) noexcept {
  const pid_t foreground = ::tcgetpgrp(terminal);  // negative: not our terminal, or it hung up
  return foreground >= 0 && foreground != ::getpgrp();
}

// Returns whether a line on this descriptor can be redrawn.
inline bool can_redraw(int fd) noexcept {
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  return ::isatty(fd) != 0 && term && std::string_view(term) != "dumb";
}

struct TerminalSize {
  unsigned rows = 24, columns = 80;  // used if the terminal does not report its size
};
inline TerminalSize terminal_size(int fd) noexcept {
  TerminalSize size;
  winsize said{};
  if (::ioctl(fd, TIOCGWINSZ, &said) != 0) return size;
  if (said.ws_row > 0) size.rows = said.ws_row;
  if (said.ws_col > 0) size.columns = said.ws_col;
  return size;
}

}  // namespace dlock
