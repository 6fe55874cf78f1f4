// SPDX-License-Identifier: Apache-2.0
#include "common/exchange.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <algorithm>
#include "core/text.hpp"
#include "util/wait.hpp"

namespace dlock {

bool Wait::interrupted() const noexcept {
  pollfd watched{interrupt_fd, POLLIN, 0};
  return interrupt_fd >= 0 && ::poll(&watched, 1, 0) > 0;
}

bool wait_for(int fd, short events, const Wait& wait) noexcept {
  pollfd fds[] = {{fd, events, 0}, {wait.interrupt_fd, POLLIN, 0}};
  return wait_until(fds, wait.until) > 0 && fds[0].revents != 0;
}

bool nap(Duration d, int interrupt_fd) noexcept {
  const Deadline until = later(Clock::now(), d);
  wait_for(-1, 0, {until, interrupt_fd});
  return Clock::now() >= until;
}

namespace {

// Returns a random pause. It is at most a time that doubles with each failure, and at least half of
// that time.
Duration growing(unsigned failures, Duration first, Duration longest) noexcept {
  const auto d = std::min<Duration>(longest, first * (1LL << std::min(failures, 10u)));
  const auto r = static_cast<Duration::rep>(Clock::now().time_since_epoch().count() / 64 % 1024);
  return d / 2 + d * r / 2048;
}

}  // namespace

Duration pause_after(unsigned failures) noexcept {
  return growing(failures, Duration{2'000}, Duration{250'000});
}
Duration pause_before_connect(unsigned failures) noexcept {
  return growing(failures, Duration{20'000}, Duration{500'000});
}

Error no_answer(std::string_view what, std::string_view where) {
  return {Errc::timed_out, fmt::format("{} at {}: no answer in time", what, where)};
}

Error malformed_reply(std::string_view what, std::string_view where) {
  return {Errc::protocol, fmt::format("{} at {}: malformed reply", what, where)};
}

Error newer_record(std::string_view record, std::string_view where, unsigned layout) {
  return {Errc::usage, fmt::format("{} at {} has layout {}, and this dlock knows layout 1 "
                                   "(a newer dlock wrote it: install that one on this host, too)",
                                   record, where, layout)};
}

Result<void> writable(const std::string& where, bool read_only) {
  if (!read_only) return {};
  return fail(Errc::unavailable, "{} is read-only: locks live on the server that writes", where);
}

Error refused(Errc code, std::string_view what, std::string_view where, std::string_view text,
              std::string_view advice) {
  const std::string shown = printable(text.substr(0, 300));
  return {code, advice.empty() ? fmt::format("{} at {}: {}", what, where, shown)
                               : fmt::format("{} at {}: {} ({})", what, where, shown, advice)};
}

}  // namespace dlock
