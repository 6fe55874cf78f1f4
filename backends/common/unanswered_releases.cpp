// SPDX-License-Identifier: Apache-2.0
#include "common/unanswered_releases.hpp"
#include <algorithm>

namespace dlock {

std::vector<Lease>::const_iterator UnansweredReleases::find(const Key& key,
                                                            const Owner& owner) const noexcept {
  return std::find_if(leases_.begin(), leases_.end(),
                      [&](const Lease& l) { return l.owner == owner && l.key == key; });
}

void UnansweredReleases::add(const Lease& lease) {
  if (open(); !has(lease.key, lease.owner)) leases_.push_back(lease);
}

bool UnansweredReleases::has(const Key& key, const Owner& owner) const noexcept {
  return find(key, owner) != leases_.end();
}

// Not there, though its ttl is not over: an earlier request of ours, whose reply was lost, has
// removed it.
Released UnansweredReleases::answered(const Lease& lease, bool removed, bool unclear) {
  const auto before = find(lease.key, lease.owner);
  const bool by_us = (unclear || before != leases_.end()) && Clock::now() < lease.deadline;
  if (before != leases_.end()) leases_.erase(before);
  return removed || by_us ? Released::yes : Released::was_not_held;
}

const std::vector<Lease>& UnansweredReleases::open() {
  std::erase_if(leases_, [now = Clock::now()](const Lease& l) { return now >= l.deadline; });
  return leases_;
}

}  // namespace dlock
