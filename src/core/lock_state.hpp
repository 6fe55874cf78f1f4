// SPDX-License-Identifier: Apache-2.0
// The only decision code of dlock: which owners hold a key, which wait, which may run next. A pure
// value without clock, files or processes.
//
// A store keeps the value in one place under mutual exclusion, supplies `now` in microseconds of
// its own clock and proof of death (`vanish`), and wakes the waiters that `invite` returns. A clock
// that is set back prolongs leases, and may bring one back that was in its lock-delay; it never
// lets two conflicting owners hold. The Lua of redis/fair is the same procedure; a model test
// compares the two.
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
    unsigned limit = UINT_MAX;  // permit: at most so many holders, including this one
    Micros ttl = never;         // never: attached; ends only by release, vanish or force_release
    Micros delay = 0;           // lock-delay
    Micros patience = never;    // a waiter that is silent for this long is dropped
    // the token is at least this: taken from a clock, it survives a lost state
    FencingToken token_floor = 0;
    bool wait = true;
    std::string meta;  // Identity::encode(); not read here
    // The state may have been forgotten: no grant, only a place. (Nobody is invited then.)
    bool queue_only = false;
  };
  struct Holder {
    Owner owner;
    Mode mode = Mode::exclusive;
    std::uint64_t ticket = 0;
    FencingToken token = 0;
    unsigned slot = 0;
    Micros since = 0;     // granted, or renewed last
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
    Micros free_at;  // when time alone may open the key
  };
  struct Busy {
    Micros free_at;
  };
  using Answer = std::variant<Granted, Waiting, Busy>;

  FencingToken fence = 0;         // newest token granted
  std::uint64_t next_ticket = 1;  // order of arrival
  std::vector<Holder> holders;    // in order of their grants
  std::vector<Waiter> waiters;    // by ticket
  bool operator==(const LockState&) const = default;

  // Grants, queues or refuses. May be repeated: a holder gets its own token again, a waiter keeps
  // its place. An owner repeats the same request. Throws std::overflow_error when no greater token
  // exists: the record is damaged.
  Answer acquire(const Acquisition&, Micros now);

  // The token of the lease that now ends at now + ttl (ttl never: attached), or nothing: lost.
  // Never revives an ended one.
  std::optional<FencingToken> renew(const Owner&, Micros ttl, Micros now);

  // Adds it to what people see of this holder: Lease::ended.
  void note_end(const Owner&, std::string_view ended);

  // True if it was held. A clean release starts no lock-delay.
  bool release(const Owner&, Micros now);

  // True if it waited.
  bool cancel(const Owner&);

  // For operators: removes the holder with this token (0: every holder), without lock-delay. The
  // fence stays, so old tokens stay stale. Returns how many were removed.
  std::size_t force_release(FencingToken);

  // The store has proof that the contender with this ticket is dead. A holder's lock-delay runs
  // from now.
  bool vanish(std::uint64_t ticket, Micros now);

  // Drops what has expired. Every other member that takes `now` does this first.
  void expire(Micros now);

  // The waiters that may run now and have not been invited yet, oldest first: the caller wakes
  // exactly these tickets. A waiter that does not claim its turn within `claim` loses its place, or
  // one stopped waiter would block all behind it.
  std::vector<std::uint64_t> invite(Micros now, Micros claim);

  // when time alone may change who can run
  Micros free_at() const noexcept;
  Micros oldest_invitation_ends() const noexcept;  // never: none is open
  // holding in force, not merely in its lock-delay
  const Holder* holder(const Owner&, Micros now) const noexcept;
  std::size_t rank_of(const Owner&) const noexcept;  // waiters.size(): not queued
};

bool is(const LockState::Holder&, const GrantId&) noexcept;  // whether the grant is this one

}  // namespace dlock
