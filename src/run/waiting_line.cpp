// SPDX-License-Identifier: Apache-2.0
#include "run/waiting_line.hpp"
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include "core/duration.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

bool draws_on_stderr() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && term && std::strcmp(term, "dumb") != 0;
}

std::size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Cut to the width of the terminal, at a character: a line that wraps cannot be redrawn.
std::string fitted(std::string line, std::size_t width) {
  if (line.size() < width) return line;
  line.resize(width - 1);
  while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) line.pop_back();
  if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0) line.pop_back();
  return line;
}

}  // namespace

WaitingLine::WaitingLine(const Plan& plan, Events& events)
    : plan_(plan), events_(events), since_(Clock::now()), next_(later(since_, 500ms)) {}

void WaitingLine::update(const Waiting& waiting, Deadline now) {
  if (now < next_ || plan_.say.quiet) return;
  terminal_ = !plan_.say.json && draws_on_stderr();
  std::string line = events_.held_line(waiting.holder, waiting.why) + "; waiting";
  if (plan_.wait) line += " up to " + format_duration(*plan_.wait);
  if (plan_.traits.fifo) line += fmt::format(" (position {})", waiting.ahead + 1);
  if (terminal_) {
    line = fitted("dlock: " + line, columns());
    events_.raw("\r" + line + "\033[K");
    drawn_ = true;
    next_ = later(now, 1s);
    return;
  }
  events_.words(line);
  static constexpr Duration again[] = {1min, 10min, 1h};
  next_ = said_ < 3 ? later(since_, again[said_]) : no_deadline;
  ++said_;
}

void WaitingLine::clear() {
  if (drawn_) events_.raw("\r\033[K");
  drawn_ = false;
}

}  // namespace dlock::run
