// SPDX-License-Identifier: Apache-2.0
#include "common/exchange.hpp"
#include <fmt/format.h>
#include <poll.h>
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

Error refused(Errc code, std::string_view what, std::string_view where, std::string_view text,
              std::string_view advice) {
  const std::string shown = printable(text.substr(0, 300));
  return {code, advice.empty() ? fmt::format("{} at {}: {}", what, where, shown)
                               : fmt::format("{} at {}: {} ({})", what, where, shown, advice)};
}

}  // namespace dlock
