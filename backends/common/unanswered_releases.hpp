// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>
#include "core/backend.hpp"

namespace dlock {

// The releases that a backend sent and that were not answered. Each may have been carried out, or
// may still be: so a repeated one that finds nothing counts as released, if it is for the same
// grant, that is: same key and same owner. (One owner can have several keys.)
class UnansweredReleases {
 public:
  void add(const Lease&);
  bool has(const Key&, const Owner&) const noexcept;

  // The meaning of an answered release. `removed`: the store had the grant until now. `unclear`: an
  // earlier try of this same call was not answered.
  Released answered(const Lease&, bool removed, bool unclear = false);

  // Those whose ttl is not over, oldest first: a new acquisition sends these again first.
  const std::vector<Lease>& open();

 private:
  std::vector<Lease>::const_iterator find(const Key&, const Owner&) const noexcept;

  std::vector<Lease> leases_;
};

}  // namespace dlock
