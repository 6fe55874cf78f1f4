// SPDX-License-Identifier: Apache-2.0
// A request for a lock, and the proof that it was granted. Values; any thread.
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

// Identifies a grant: by its token, or by its owner.
using GrantId = std::variant<FencingToken, Owner>;

// permit: at most `limit` holders at a time
enum class Mode : char { exclusive = 'X', shared = 'S', permit = 'P' };
inline std::optional<Mode> parse_mode(std::string_view letter) noexcept {
  if (letter != "X" && letter != "S" && letter != "P") return std::nullopt;
  return static_cast<Mode>(letter.front());
}

// Proves that `owner` holds `key` until `deadline`. The deadline is on this host's clock and counts
// from the sending of the request, so it can only be earlier than the store's (lease_end() in
// clock.hpp). no_deadline: the lock ends with a descriptor (attached).
struct Lease {
  Key key;
  Owner owner;  // the holder; not always the owner of the Request (see there)
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;  // 0..limit-1 for a permit
  Deadline deadline = no_deadline;
  // The lock lasts as long as a process: this one, or one that got `hold_fd` from it.
  bool attached = false;
  // What another process needs beside the owner to renew or release a detached lease. A secret, and
  // part of the handle.
  std::string ticket{};
  // ProgramEnded::encode(). A renewal shows it to people who inspect the lock, if the recipe's
  // record has room for it. Empty: nothing to show.
  std::string ended{};
};

// `owner` names one attempt to acquire. What happens when a reply is lost: the caller repeats the
// request with the same owner, and the store recognises by the owner what it has done already.
//
// So an owner must not be used again after an undo. Once dlock has sent a release, a cancellation
// or another undo under an owner, with or without a reply, it acquires nothing under that owner
// again: the message may arrive late, and would end the next grant. A new attempt has a new owner.
// First it repeats the old owner's release until the store replies, or waits until its ttl is over.
// A Waiter that undoes something by itself does the same; then Lease::owner is the holder, not
// Request::owner.
struct Request {
  Key key;
  Owner owner;  // the same as long as the attempt is repeated and nothing is undone
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;  // permit only
  Duration ttl{};             // the lifetime of the lock without a renewal
  Duration lock_delay{};      // if this holder vanishes, nobody gets the key for this long
  bool attached = true;       // false: a detached lease that outlives this process
  bool wait = true;           // false: a single try
  Identity identity;
};

}  // namespace dlock
