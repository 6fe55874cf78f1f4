// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <vector>
#include "store/backend.hpp"

namespace dlock {

// Releases that a backend sent and that got no reply. The store may have carried out each of them,
// or may still do so. So if a release is repeated and finds no grant, the earlier release counts as
// successful. Two releases are for the same grant if key and owner are the same. (One owner can
// have several keys.)
class UnansweredReleases {
 public:
  void add(const Lease& lease) {
    if (open(); !has(lease.key, lease.owner)) leases_.push_back(lease);
  }
  bool has(const Key& key, const Owner& owner) const noexcept {
    return find(key, owner) != leases_.end();
  }

  // Returns what the reply to a release means. `removed`: the store had the grant until now.
  // `unclear`: an earlier try of this call got no reply. If the grant is gone before its ttl is
  // over, an earlier release without a reply has removed it.
  Released answered(const Lease& lease, bool removed, bool unclear = false) {
    const auto before = find(lease.key, lease.owner);
    const bool by_us = (unclear || before != leases_.end()) && Clock::now() < lease.deadline;
    if (before != leases_.end()) leases_.erase(before);
    return removed || by_us ? Released::yes : Released::was_not_held;
  }

  // Returns the releases of grants whose ttl is not over, oldest first. Before a new acquisition,
  // the backend repeats these releases.
  const std::vector<Lease>& open() {
    std::erase_if(leases_, [now = Clock::now()](const Lease& l) { return now >= l.deadline; });
    return leases_;
  }

 private:
  std::vector<Lease>::const_iterator find(const Key& key, const Owner& owner) const noexcept {
    return std::ranges::find_if(leases_,
                                [&](const Lease& l) { return l.owner == owner && l.key == key; });
  }

  std::vector<Lease> leases_;
};

}  // namespace dlock
