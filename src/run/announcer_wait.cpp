// SPDX-License-Identifier: Apache-2.0
// The part of Announcer about the wait.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include "core/duration.hpp"
#include "run/announcer.hpp"

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

// Truncated to the width of the terminal, between characters: a line that wraps cannot be redrawn.
std::string fitted(std::string line, std::size_t width) {
  if (line.size() < width) return line;
  line.resize(width - 1);
  while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) line.pop_back();
  if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0) line.pop_back();
  return line;
}

}  // namespace

bool redraws(const Plan& plan) { return !plan.say.quiet && !plan.say.json && draws_on_stderr(); }

void Announcer::still_waiting(const Waiting& waiting, Deadline now) {
  failing_since_ = no_deadline;
  if (now < next_line_ || plan_.say.quiet) return;
  show(output_.held_line(waiting.holder, waiting.why),
       plan_.traits.fifo ? fmt::format(" (position {})", waiting.ahead + 1) : "");
  next_line_ = terminal_    ? later(now, 1s)
               : lines_ < 3 ? later(since_, said_again[lines_])
                            : no_deadline;
  ++lines_;
}

// The store, or its reply is malformed. Reported once that has lasted for 2 s; again each second on
// a terminal, elsewhere after 10 min at the earliest.
void Announcer::unreachable(const std::string& why, Deadline now) {
  failing_since_ = std::min(failing_since_, now);
  if (now < later(failing_since_, 2s) || now < next_failing_ || plan_.say.quiet) return;
  show(why);
  next_failing_ = later(now, terminal_ ? Duration{1s} : Duration{10min});
}

void Announcer::show(const std::string& why, const std::string& position) {
  const std::string until = plan_.wait ? " up to " + format_duration(*plan_.wait) : "";
  const std::string line = fmt::format("{}; waiting{}{}", why, until, position);
  terminal_ = redraws(plan_);
  if (!terminal_) return output_.inform(line);
  output_.raw("\r" + fitted("dlock: " + line, columns()) + "\033[K");
  drawn_ = true;
}

void Announcer::clear_line() {
  if (drawn_) output_.raw("\r\033[K");
  drawn_ = false;
}

// `busy` with the holder, if the store named it recently (CLI: --op-timeout and a second).
void Announcer::wait_is_over(bool busy, Deadline now) {
  output_.trace(busy ? "fail" : "info", "acquire");
  if (!busy)
    return no_answer_.empty() ? error("the store did not answer in time")
                              : output_.error(no_answer_);
  if (now > later(answer_.asked_at, plan_.timing.op_timeout + 1s)) answer_ = {};
  output_.error(output_.busy_line(answer_.holder, answer_.why));
}

}  // namespace dlock::run
