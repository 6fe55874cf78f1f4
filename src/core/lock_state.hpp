// SPDX-License-Identifier: Apache-2.0
// Decides which owners hold a key, which wait, and which may run next. It is a pure value without a
// clock, files or processes.
//
// A store keeps the value in one place under mutual exclusion. The store supplies `now` in
// microseconds of its own clock, and the proof that a contender is dead (`vanish`). It wakes the
// waiters that `invite` returns. If the store's clock is set back, leases last longer, and a lease
// that is in its lock-delay may be in force again. But two conflicting owners never hold at the
// same time. The Lua script of redis/fair follows the same procedure; a model test compares the
// two.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
#include "core/lease.hpp"

namespace dlock {

using Micros = std::int64_t;  // an instant or a span on the store's clock
inline constexpr Micros never = INT64_MAX;
constexpr Micros after(Micros t, Micros span) noexcept {
  return t > never - span ? never : t + span;
}

struct LockState {
  struct Acquisition {
    Owner owner;
    Mode mode = Mode::exclusive;
    unsigned limit = UINT_MAX;  // for a permit: the greatest number of holders, including this one
    Micros ttl = never;         // never: attached; only release, vanish or force_release ends it
    Micros delay = 0;           // lock-delay
    Micros patience = never;    // a waiter that sends nothing for this long is dropped
    // The new token is at least this. The value comes from a clock, so that tokens rise even if the
    // state was lost.
    FencingToken token_floor = 0;
    bool wait = true;
    std::string meta;  // Identity::encode(); LockState does not read it
    // Set it if the store may have lost its state. Then acquire() queues the owner, but grants
    // nothing and invites nobody.
    bool queue_only = false;
  };
  struct Holder {
    Owner owner;
    Mode mode = Mode::exclusive;
    std::uint64_t ticket = 0;
    FencingToken token = 0;
    unsigned slot = 0;
    Micros since = 0;     // the time of the grant or of the last renewal
    Micros deadline = 0;  // never: attached
    Micros delay = 0;
    std::string meta;
    Micros free_at() const noexcept { return after(deadline, delay); }
    bool operator==(const Holder&) const = default;
  };
  struct Waiter {
    Owner owner;
    Mode mode = Mode::exclusive;
    unsigned limit = UINT_MAX;
    std::uint64_t ticket = 0;
    Micros live_until = never;
    bool invited = false;
    std::string meta;
    bool operator==(const Waiter&) const = default;
  };
  struct Granted {
    FencingToken token;
    std::uint64_t ticket;
    unsigned slot;
  };
  struct Waiting {
    std::size_t rank;
    Micros free_at;  // when the key may become free without any request
  };
  struct Busy {
    Micros free_at;
  };
  using Answer = std::variant<Granted, Waiting, Busy>;

  FencingToken fence = 0;         // the newest token that was granted
  std::uint64_t next_ticket = 1;  // tickets show the order of arrival
  std::vector<Holder> holders;    // in the order of their grants
  std::vector<Waiter> waiters;    // in the order of their tickets
  bool operator==(const LockState&) const = default;

  // Grants, queues or refuses. An owner may repeat the same request: a holder gets its own token
  // again, a waiter keeps its place. Throws std::overflow_error if no greater token exists, which
  // means that the record is damaged.
  Answer acquire(const Acquisition&, Micros now);

  // Makes the lease end at now + ttl (`never` for an attached lock) and returns its token. nullopt:
  // the lease is lost. renew() never revives a lease that has ended.
  std::optional<FencingToken> renew(const Owner&, Micros ttl, Micros now);

  // Records `ended` (Lease::ended) for people who inspect this holder.
  void note_end(const Owner&, std::string_view ended);

  // Removes the holder, without lock-delay. Returns whether the owner was a holder.
  bool release(const Owner&, Micros now);

  // Removes the waiter. Returns whether the owner was a waiter.
  bool cancel(const Owner&);

  // For operators: removes the holder with this token (0: every holder), without lock-delay. The
  // token counter stays, so old tokens stay stale. Returns how many holders were removed.
  std::size_t force_release(FencingToken);

  // Removes the contender with this ticket, because the store has proof that it is dead. If it was
  // a holder, its lock-delay begins now.
  bool vanish(std::uint64_t ticket, Micros now);

  // Removes what has expired. All other functions that take `now` call it first, except holder().
  void expire(Micros now);

  // Returns the tickets of the waiters that may run now and have not been invited yet, oldest
  // first. The caller wakes exactly these. A waiter that does not claim its turn within `claim`
  // loses its place, because it would block all waiters behind it.
  std::vector<std::uint64_t> invite(Micros now, Micros claim);

  // Returns the time at which another contender may be able to run although nobody sends a request.
  Micros free_at() const noexcept;
  Micros oldest_invitation_ends() const noexcept;  // never: no invitation is open
  // Returns the holder if its lease is in force, else nullptr (also during its lock-delay).
  const Holder* holder(const Owner&, Micros now) const noexcept;
  std::size_t rank_of(const Owner&) const noexcept;  // waiters.size() if not queued
};

bool is(const LockState::Holder&, const GrantId&) noexcept;  // whether the holder has this grant

}  // namespace dlock
