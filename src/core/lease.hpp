// SPDX-License-Identifier: Apache-2.0
// A request for a lock, and the proof that the lock was granted. They are values; any thread may
// use them.
#pragma once
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include "core/clock.hpp"
#include "core/identity.hpp"
#include "core/key.hpp"
#include "core/owner.hpp"

namespace dlock {

using FencingToken = std::uint64_t;  // rises with each grant of a key; 0 is never valid

// Identifies a grant: by its token, or by its owner.
using GrantId = std::variant<FencingToken, Owner>;

// permit: at most `limit` holders at a time
enum class Mode : char { exclusive = 'X', shared = 'S', permit = 'P' };
inline std::optional<Mode> parse_mode(std::string_view letter) noexcept {
  if (letter != "X" && letter != "S" && letter != "P") return std::nullopt;
  return static_cast<Mode>(letter.front());
}

// Proves that `owner` holds `key` until `deadline`. The deadline is on this host's clock. It counts
// from the sending of the request, so it is never later than the store's own deadline (lease_end()
// in clock.hpp). no_deadline: the lock ends with a descriptor (attached).
struct Lease {
  Key key;
  Owner owner;  // the holder; may differ from the owner of the Request (see there)
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;  // 0..limit-1 for a permit
  Deadline deadline = no_deadline;
  // The lock lasts while this process lives, or while another process lives that got
  // Granted::hold_fd from this process.
  bool attached = false;
  // What another process needs, in addition to the owner, to renew or release a detached lease. It
  // is a secret, and part of the handle.
  std::string ticket{};
  // How the program of the run ended (ProgramEnded::encode()), or empty. It is for people who
  // inspect the lock. A renewal writes it into the store's record, if the records of the recipe
  // have room for it.
  std::string ended{};
};

// A request for a lock. `owner` names one attempt to acquire. If a reply is lost, the caller
// repeats the request with the same owner. By the owner the store recognises a request that it has
// carried out already.
//
// An owner must not be used again after an undo: a release, a cancellation or the like. An undo may
// arrive late, and would end the next grant of the same owner. So once dlock has sent an undo, with
// or without a reply, it acquires nothing more under that owner: the next attempt has a new owner.
// Before that attempt dlock repeats the old owner's release until the store replies, or until the
// ttl is over. A Waiter that undoes something by itself follows the same rule. After that the
// holder is Lease::owner, and not Request::owner.
struct Request {
  Key key;
  Owner owner;  // stays the same as long as the attempt is repeated and not undone
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;  // permit only
  Duration ttl{};             // the lifetime of the lock without a renewal
  Duration lock_delay{};      // if this holder vanishes, nobody gets the key for this long
  bool attached = true;       // false: a detached lease that outlives this process
  bool wait = true;           // false: a single try
  Identity identity;
};

}  // namespace dlock
