// SPDX-License-Identifier: Apache-2.0
#include "run/take.hpp"
#include <fcntl.h>
#include "core/exit_status.hpp"
#include "run/taker.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

Outcome take(const Plan& asked, const GrantSink& sink) {
  // as in run(): the keeper's thread may outlive this call
  const Plan& plan = *new Plan(asked);
  const Entry& entry = *new Entry;
  if (plan.say.status_fd >= 0) ::fcntl(plan.say.status_fd, F_SETFD, FD_CLOEXEC);
  Events& events = *new Events(plan);
  const std::function<bool(const std::vector<Lease>&)> printed = [&](const auto& leases) {
    return sink.print(sink.text(leases));
  };
  Outcome outcome;
  if (const auto opened = events.open(); !opened) {
    events.error(opened.error().message);
    outcome = {false, exit_status(opened.error().code), "error"};
  } else {
    const Taker::Staying stays{.at_all = plan.request.attached,
                               .until_stdin_ends = plan.request.attached};
    outcome = (new Taker(plan, entry, events, printed, stays))->run();
  }
  events.flush(2s);
  return outcome;
}

}  // namespace dlock::run
