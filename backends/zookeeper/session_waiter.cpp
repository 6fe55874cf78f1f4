// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session_waiter.hpp"
#include <fmt/format.h>

namespace dlock::zookeeper {

namespace {
constexpr unsigned most_breaks = 2;  // in one poll; more is for the caller to know
}

SessionWaiter::~SessionWaiter() {
  const Place* p = base_.find_place(request_.key, request_.owner);
  if (p && base_.lives(*p) && watch_ != 0) p->line->session->forget(watch_);
}

Result<Progress> SessionWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  for (unsigned breaks = 0; breaks <= most_breaks;) {
    Step step = turn(end);
    if (!step) return fail(std::move(step.error()));
    if (*step) return std::move(**step);
    const Place* p = base_.find_place(request_.key, request_.owner);
    if (p && p->line && p->line->session->state() != Session::State::connected) ++breaks;
  }
  return fail(Errc::timed_out, fmt::format("acquire at {}: the connection breaks again and again", base_.where()));
}

Result<void> SessionWaiter::cancel() {
  Place* p = base_.find_place(request_.key, request_.owner);
  if (!p) return {};
  if (p->granted) {
    const auto released = base_.release(base_.lease_of(*p, Clock::now()));
    if (!released) return fail(released.error());
    return {};
  }
  if (auto left = base_.leave(*p); !left) return left;
  base_.forget(*p);
  return {};
}

}  // namespace dlock::zookeeper
