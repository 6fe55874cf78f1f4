// SPDX-License-Identifier: Apache-2.0
#include "redis/named_waiter.hpp"
#include <algorithm>
#include "redis/socket.hpp"

namespace dlock::redis {
namespace {

// Not in step with the others who wait.
Duration pause(const Owner& owner, unsigned asked) noexcept {
  const Duration about = asked < 20 ? std::chrono::milliseconds{100} : std::chrono::milliseconds{500};
  return about * (768 + owner.bytes[asked % owner.bytes.size()]) / 1024;
}

}  // namespace

Result<Progress> NamedWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  const int interrupt = backend_.client().options().interrupt_fd;
  for (bool first = true;; first = false) {
    // A slice of zero is one try; others keep the pace, however short they are.
    if (!(first && slice <= Duration{}) && Clock::now() < next_) {
      wait_for(-1, 0, {std::min(end, next_), interrupt});
      if (Clock::now() < next_) return Progress{last_};
    }
    auto tried = backend_.try_once(request_);
    if (!tried) return fail(std::move(tried.error()));
    if (tried->lease) return Progress{Granted{std::move(*tried->lease)}};
    if (!request_.wait) return Progress{Busy{std::move(tried->holder), std::move(tried->why)}};
    last_ = {0, std::move(tried->holder), std::move(tried->why)};
    next_ = Clock::now() + pause(request_.owner, asked_++);
    if (tried->free_in) next_ = std::min<Deadline>(next_, Clock::now() + *tried->free_in + std::chrono::milliseconds{1});
    if (Clock::now() >= end) return Progress{last_};
  }
}

Result<void> NamedWaiter::cancel() {
  const auto released = backend_.release({request_.key, request_.owner});
  if (!released) return fail(released.error());
  return {};
}

}  // namespace dlock::redis
