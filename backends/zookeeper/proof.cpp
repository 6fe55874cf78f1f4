// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/proof.hpp"
#include <algorithm>

namespace dlock::zookeeper {

void Proof::attached(Deadline sent, Duration timeout) {
  timeout_ = timeout;
  attached_ = sent;
  heard_.assign(1, sent);
  until_ = lease_end(sent, timeout);
}

void Proof::heard(Deadline sent) {
  if (timeout_ == Duration{} || sent < attached_) return;
  heard_.insert(std::upper_bound(heard_.begin(), heard_.end(), sent), sent);
  // Only the newest packet that is half a tick older than anything still to come matters, and what came after it.
  const Deadline window = heard_.back() - half_tick();
  const auto first = std::upper_bound(heard_.begin(), heard_.end(), window);
  if (first - heard_.begin() > 1) heard_.erase(heard_.begin(), first - 1);
}

void Proof::committed(Deadline sent) {
  if (timeout_ == Duration{} || sent < attached_) return;
  heard(sent);
  const Deadline window = sent - half_tick();
  if (attached_ > window) return;  // what attached() said is the better proof
  Clock::duration gap{};
  for (auto at = heard_.begin() + 1; at < heard_.end() && *at <= sent; ++at)
    if (*at > window) gap = std::max(gap, *at - *(at - 1));
  until_ = std::max(until_, lease_end(window - gap, timeout_));
}

}  // namespace dlock::zookeeper
