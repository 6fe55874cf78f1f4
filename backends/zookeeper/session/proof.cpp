// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/proof.hpp"
#include <algorithm>

namespace dlock::zookeeper {

// This is an eighth more than half a tick, because the leader's loop takes time, too.
Duration half_tick(Duration timeout, Duration tick) noexcept {
  if (tick <= Duration{}) tick = timeout / 2;
  return tick / 2 + tick / 16;
}

void Proof::attached(Deadline sent, Deadline answered, Duration timeout) {
  if (timeout < timeout_) until_ = std::min(until_, lease_end(sent, timeout));
  timeout_ = timeout;
  attached_ = {sent, answered};
  answers_.assign(1, attached_);
  waiting_.clear();
}

void Proof::note_answer(Deadline sent, Deadline answered) {
  if (timeout_ == Duration{} || sent < attached_.answered) return;
  // Replies come in the order of the requests. Of replies that are close together, one is enough.
  if (sent - answers_.back().sent >= timeout_ / 64) answers_.push_back({sent, answered});
  // Of the replies that are at least half a tick old, later requests need only the newest.
  const Deadline before = sent - half_tick(timeout_, tick_);
  const auto old =
      std::ranges::find_if(answers_, [&](const Answered& j) { return j.answered > before; });
  if (old - answers_.begin() > 1) answers_.erase(answers_.begin(), old - 1);
}

void Proof::note(Deadline touch) noexcept { until_ = std::max(until_, lease_end(touch, timeout_)); }

void Proof::committed(Deadline sent, Deadline answered) {
  if (timeout_ == Duration{} || sent < attached_.answered) return;
  note(attached_.sent);
  const auto later_ones =
      std::ranges::find_if(waiting_, [&](const Answered& i) { return i.answered > sent; });
  if (later_ones != waiting_.begin()) {
    note((later_ones - 1)->sent);
    waiting_.erase(waiting_.begin(), later_ones - 1);
  }
  const Deadline before = sent - half_tick(timeout_, tick_);
  const auto j = std::find_if(answers_.rbegin(), answers_.rend(),
                              [&](const Answered& a) { return a.answered <= before; });
  if (j != answers_.rend() && (waiting_.empty() || waiting_.back().sent < j->sent))
    waiting_.push_back({j->sent, answered});
  note_answer(sent, answered);
}

Duration proven_of(Duration ttl, Duration lock_delay, Duration tick) noexcept {
  const Duration timeout = ttl + lock_delay;
  return std::max<Duration>(Duration{}, (ttl - half_tick(timeout, tick) - drift(timeout)) * 3 / 4);
}

}  // namespace dlock::zookeeper
