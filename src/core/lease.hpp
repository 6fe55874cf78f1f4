// SPDX-License-Identifier: Apache-2.0
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

using FencingToken = std::uint64_t;  // rises with every grant of a key; 0 is never valid

// A grant by its token, or whichever this owner has.
using GrantId = std::variant<FencingToken, Owner>;

// permit: one of at most `limit` holders
enum class Mode : char { exclusive = 'X', shared = 'S', permit = 'P' };
inline std::optional<Mode> parse_mode(std::string_view letter) noexcept {
  if (letter != "X" && letter != "S" && letter != "P") return std::nullopt;
  return static_cast<Mode>(letter.front());
}

// Proof that `owner` holds `key` until `deadline`. The deadline is on this host's clock and counts
// from the sending of the request, so it can only be earlier than the store's. no_deadline: the
// lock ends with a descriptor (attached).
struct Lease {
  Key key;
  Owner owner;  // the holder; not always the owner that asked (see Request)
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;  // 0..limit-1 for a permit
  Deadline deadline = no_deadline;
  bool attached = false;  // lasts as long as a process (this one, or one that it gave `hold_fd` to)
  // needed besides the owner to renew or release a detached lease from another process; a secret,
  // part of the handle
  std::string ticket{};
  // A renewal adds it to what people see of this holder, if what the recipe writes can carry it:
  // ProgramEnded::encode(). Empty: there is nothing to add.
  std::string ended{};
};

// `owner` names one attempt to acquire. It recognises the lost reply of a repeated request, and so
// it must not come back: once a release, a cancellation or another undo was sent under an owner,
// answered or not, nothing is acquired under it again, because that message may arrive late and
// would end the next grant. A new attempt has a new owner, and first repeats the unanswered release
// of the old one until it is answered, or waits until its ttl is over. A Waiter that undoes
// something by itself does the same; then Lease::owner is the holder, not Request::owner.
struct Request {
  Key key;
  Owner owner;  // unchanged when the same acquisition is repeated and nothing was undone
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;  // permit only
  Duration ttl{};             // the lifetime of the lock without a renewal
  Duration lock_delay{};      // if this holder vanishes, the key is not granted for this long
  bool attached = true;       // false: a detached lease that outlives this process
  bool wait = true;           // false: a single try
  Identity identity;
};

}  // namespace dlock
