// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <climits>
#include <cstdint>
#include <string>
#include "core/clock.hpp"
#include "core/identity.hpp"
#include "core/key.hpp"
#include "core/owner.hpp"

namespace dlock {

using FencingToken = std::uint64_t;  // rises with every grant of a key; 0 is never valid

enum class Mode : char { exclusive = 'X', shared = 'S', permit = 'P' };  // permit: one of at most `limit` holders

// Proof that `owner` holds `key` until `deadline`. The deadline is on this host's clock and counts from the moment the
// request was sent, so it can only be earlier than the store's. no_deadline: the lock ends with a descriptor (attached).
struct Lease {
  Key key;
  Owner owner;
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;  // 0..limit-1 for a permit
  Deadline deadline = no_deadline;
  bool attached = false;  // lives as long as this process (or whoever it handed `hold_fd` to)
  std::string
      ticket{};  // what another process needs besides the owner to renew or release a detached lease; a secret, part of the handle
};

struct Request {
  Key key;
  Owner owner;  // the same one when the same acquisition is repeated
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;  // permit only
  Duration ttl{};             // how long the lock survives when nobody renews it
  Duration lock_delay{};      // if this holder vanishes, nobody gets the lock for so long
  bool attached = true;       // false: a detached lease that outlives this process
  bool wait = true;           // false: one real try
  Identity identity;
};

}  // namespace dlock
