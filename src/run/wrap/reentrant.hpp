// SPDX-License-Identifier: Apache-2.0
// A nested `dlock run` of a key that an ancestor holds: a Backend that takes such a key by asking
// the store whether the ancestor's handle is still in force. It has no deadline of its own: the
// ancestor renews, and its guard ends this whole tree in time. Other keys, and one whose handle is
// stale, are acquired as usual.
#pragma once
#include <climits>
#include <memory>
#include <vector>
#include "core/backend.hpp"

namespace dlock::run {

struct InheritedGrant {
  Key key;
  Owner owner;
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;  // permit
  FencingToken token = 0;
  unsigned slot = 0;
};

std::unique_ptr<Backend> reentrant(std::unique_ptr<Backend>, std::vector<InheritedGrant>);

}  // namespace dlock::run
