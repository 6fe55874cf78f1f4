// SPDX-License-Identifier: Apache-2.0
#include "run/waiting_line.hpp"
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include "core/duration.hpp"
#include "core/text.hpp"

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

WaitingLine::WaitingLine(const Plan& plan, Output& output)
    : plan_(plan), output_(output), since_(Clock::now()), next_(later(since_, 500ms)) {}

void WaitingLine::update(const Waiting& waiting, Deadline now) {
  failing_since_ = no_deadline;
  if (now < next_ || plan_.say.quiet) return;
  std::string line = output_.held_line(waiting.holder, waiting.why) + until_when();
  if (plan_.traits.fifo) line += fmt::format(" (position {})", waiting.ahead + 1);
  show(line);
  next_ = terminal_ ? later(now, 1s) : said_ < 3 ? later(since_, said_again[said_]) : no_deadline;
  ++said_;
}

std::string WaitingLine::until_when() const {
  return plan_.wait ? "; waiting up to " + format_duration(*plan_.wait) : "; waiting";
}

void WaitingLine::show(const std::string& line) {
  terminal_ = redraws(plan_);
  if (!terminal_) return output_.inform(line);
  output_.raw("\r" + fitted("dlock: " + line, columns()) + "\033[K");
  drawn_ = true;
}

void WaitingLine::fails(const std::string& why, Deadline now) {
  failing_since_ = std::min(failing_since_, now);
  if (now < later(failing_since_, 2s) || now < next_failing_ || plan_.say.quiet) return;
  show(why + until_when());
  next_failing_ = later(now, terminal_ ? Duration{1s} : Duration{10min});
}

void WaitingLine::clear() {
  if (drawn_) output_.raw("\r\033[K");
  drawn_ = false;
}

void WaitingLine::answered(event::Answered a) {
  answer_ = std::move(a);
  no_answer_.clear();
}

void WaitingLine::ended(bool busy, Deadline now) {
  clear();
  output_.trace_result("acquire", busy ? "fail" : "info");
  const bool recent =
      now <= later(answer_.asked_at, plan_.timing.op_timeout + std::chrono::seconds{1});
  if (busy)
    return output_.error(recent ? output_.busy_line(answer_.holder, answer_.why)
                                : output_.busy_line(std::nullopt, {}));
  output_.error(no_answer_.empty()
                    ? fmt::format("{}: the store did not answer in time", output_.key())
                    : no_answer_);
}

}  // namespace dlock::run
