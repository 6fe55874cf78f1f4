// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <cerrno>
#include <cstring>
#include "core/exit_status.hpp"
#include "run/supervisor.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr Duration last_words = 2s;  // for a reader of stderr or --status-fd that does not read

Outcome cannot_begin(Events& events, Status status, const std::string& why) {
  events.error(why);
  events.go();
  events.flush(last_words);
  return {false, status};
}

}  // namespace

Outcome run(const Plan& plan) {
  Entry& entry = *new Entry;  // as long as the process, like everything the keeper's thread may see
  if (plan.say.status_fd >= 0) ::fcntl(plan.say.status_fd, F_SETFD, FD_CLOEXEC);
  Events& events = *new Events(plan);
  if (!entry.can_list_children())
    return cannot_begin(events, status_unavailable,
                        "/proc does not list child processes here: a job could not be ended for certain");

  if (const auto opened = events.open(); !opened)
    return cannot_begin(events, exit_status(opened.error().code), opened.error().message);
  Fd ours, theirs;
  if (!Channel::make_pair(ours, theirs))
    return cannot_begin(events, status_unavailable, fmt::format("no socket pair: {}", std::strerror(errno)));
  const Outcome outcome = (new Supervisor(plan, entry, events, std::move(ours), std::move(theirs)))->run();
  events.flush(last_words);
  return outcome;
}

}  // namespace dlock::run
