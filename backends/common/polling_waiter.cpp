// SPDX-License-Identifier: Apache-2.0
#include "common/polling_waiter.hpp"
#include <algorithm>
#include "util/wait.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;

constexpr unsigned quick_tries = 20;

Duration pause(const Owner& owner, unsigned tries) noexcept {
  const Duration about = tries < quick_tries ? milliseconds{100} : milliseconds{500};
  return about * (768 + owner.bytes[tries % owner.bytes.size()]) / 1024;
}

}  // namespace

Result<Progress> PollingWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  last_.sent_at = {};
  for (bool first = true;; first = false) {
    // A slice of zero means one try now. No other slice, however short, shortens the interval
    // between tries.
    if (!(first && slice <= Duration{}) && Clock::now() < next_) {
      pollfd interrupt{interrupt_, POLLIN, 0};
      wait_until({&interrupt, 1}, std::min(end, next_));
      if (Clock::now() < next_) return last_;
    }
    const Deadline sent = Clock::now();
    TRY(tried, try_once());
    if (tried.lease) return Granted{std::move(*tried.lease)};
    if (!request_.wait) return Busy{std::move(tried.holder), std::move(tried.why), sent};
    last_ = {0, std::move(tried.holder), std::move(tried.why), sent};
    next_ = Clock::now() + pause(request_.owner, tries_++);
    if (tried.free_in)
      next_ = std::min<Deadline>(next_, Clock::now() + *tried.free_in + milliseconds{1});
    if (Clock::now() >= end) return last_;
  }
}

}  // namespace dlock
