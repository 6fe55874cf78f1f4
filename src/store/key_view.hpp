// SPDX-License-Identifier: Apache-2.0
// What people see of a key: `inspect`, messages about a wait, and `release`. Values only. dlock
// does not use them to decide who holds a lock: they are only copies of what the store has. Their
// text is untrusted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include "core/clock.hpp"
#include "core/identity.hpp"
#include "core/lock_state.hpp"
#include "store/last_run.hpp"

namespace dlock {

struct HolderView {
  std::string id;  // a prefix of the owner id: enough to tell holders apart, useless as a handle
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;
  bool attached = false;
  bool vanished = false;              // the holder is gone, and only its lock-delay still runs
  std::optional<Duration> remaining;  // until the lease or the lock-delay ends, if nobody renews it
  // When the lock was granted, as a time of this host. nullopt: the store does not record it.
  std::optional<Deadline> granted_at;
  bool revoked = false;  // somebody asked this holder to stop (Backend::revoke)
  // For people: why Backend::force_release() cannot remove this holder, and what ends it. Empty:
  // force_release() can remove it.
  std::string stays_because{};
  Identity who;
  // Returns whether this holder has ended, although its record still exists: its lease and
  // lock-delay are over, or it was a process without lock-delay and is gone.
  bool ended() const noexcept { return remaining && *remaining <= Duration{}; }
  // Returns for how long the lock has been held; nullopt: unknown.
  std::optional<Duration> held(Deadline now = Clock::now()) const;
};
struct WaiterView {
  std::string id;
  Mode mode = Mode::exclusive;
  Identity who;
};
struct KeyView {
  std::string key;
  FencingToken fence = 0;           // the newest token that was granted
  std::vector<HolderView> holders;  // holders that have ended come last
  std::vector<WaiterView> waiters;  // in queue order
  bool waiters_known = true;        // false: nobody knows the waiters
  std::vector<std::string> notes;   // remarks about this record, for people
  // Not empty: why there may be holders that are not in `holders`. Then an empty `holders` does not
  // mean that the key is free.
  std::string unknown_reason{};
  // The run with the newest token among the runs that have ended. Recipes without
  // Traits::keeps_last_run have it only while --min-hold still keeps the lock of that run.
  std::optional<LastRun> last_run{};
  // The newest recorded start (Backend::note_start), by the store's clock. The store keeps it only
  // as long as it is needed.
  std::optional<std::int64_t> noted_start{};
};

// Make the views for a store that keeps a LockState. `now` is on the store's clock. Holders that
// have ended come last, and dead waiters are left out.
HolderView view(const LockState::Holder& holder, Micros now);
WaiterView view(const LockState::Waiter& waiter);
KeyView view(const LockState& state, std::string key, Micros now);
void ended_last(KeyView&);  // moves holders that have ended to the end

// Returns HolderView::granted_at. `granted` and `now` are on the store's clock, which showed `now`
// a moment ago. nullopt: `granted` is 0, or later than `now`.
std::optional<Deadline> time_of_grant(Micros granted, Micros now);

}  // namespace dlock
