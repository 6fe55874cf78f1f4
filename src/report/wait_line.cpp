// SPDX-License-Identifier: Apache-2.0
#include "report/wait_line.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <iterator>
#include <utility>
#include "util/terminal.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

std::string waiting(const std::string& until, const std::string& position) {
  return fmt::format("; waiting{}{}{}{}", until.empty() ? "" : " ", until,
                     position.empty() ? "" : " ", position);
}

}  // namespace

std::string shortened(std::string_view text, std::size_t longest) {
  constexpr std::string_view more = "...";
  if (text.size() <= longest) return std::string(text);
  if (longest < more.size()) return std::string(longest, '.');
  std::size_t end = longest - more.size();
  const std::size_t space = text.rfind(' ', end);
  if (space != text.npos && space > 0) end = space;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  while (end > 0 && std::string_view(" ,;:(").find(text[end - 1]) != text.npos) --end;
  return fmt::format("{}{}", text.substr(0, end), more);
}

std::string WaitText::whole() const { return why + waiting(until, position); }

std::string WaitText::fitted(std::size_t width) const {
  constexpr std::string_view head = "dlock: ";
  constexpr std::size_t enough = 48;  // this many bytes of WHY name the holder
  const std::size_t longest = width > 0 ? width - 1 : 0;
  const std::string tails[] = {waiting(until, position), waiting({}, position), waiting({}, {})};
  for (const std::string& tail : tails) {
    const std::size_t others = head.size() + tail.size();
    const std::size_t room = longest > others ? longest - others : 0;
    if (room >= why.size() || room >= enough)
      return fmt::format("{}{}{}", head, shortened(why, room), tail);
  }
  return shortened(fmt::format("{}{}", head, whole()), longest);
}

WaitLine::WaitLine(Style style, Deadline since, Write raw, Write say)
    : redrawn_(style == Style::redrawn),
      raw_(std::move(raw)),
      say_(std::move(say)),
      since_(since),
      next_(later(since_, 500ms)) {}

void WaitLine::mark_shown(Deadline now) {
  const bool again = lines_ < static_cast<int>(std::size(repeat_times));
  next_ = redrawn_ ? later(now, 1s) : again ? later(since_, repeat_times[lines_]) : no_deadline;
  ++lines_;
}

void WaitLine::show(const WaitText& text) {
  if (!redrawn_) return say_(text.whole());
  raw_(fmt::format("\r{}\033[K", text.fitted(terminal_size(STDERR_FILENO).columns)));
  drawn_ = true;
}

void WaitLine::clear() {
  if (std::exchange(drawn_, false)) raw_("\r\033[K");
}

}  // namespace dlock::run
