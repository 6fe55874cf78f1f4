// SPDX-License-Identifier: Apache-2.0
// What people see of a key: `inspect`, messages about a wait, and `release`. Values only. They
// never decide who holds a lock: the store has the copy that decides. Their text is untrusted.
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
  // For people: why Backend::force_release cannot remove it, and what ends it. Empty: it can.
  std::string stays_because{};
  Identity who;
  // Returns whether it holds the key no longer, although its record still exists: its lease and
  // lock-delay are over, or it was a process without lock-delay and is gone.
  bool ended() const noexcept { return remaining && *remaining <= Duration{}; }
  // For how long it has been held.
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
  bool waiters_known = true;        // false: this recipe cannot know
  std::vector<std::string> notes;   // remarks about this record, for people
  // Not empty: why there may be holders that are not in `holders`. Then an empty list does not mean
  // that the key is free.
  std::string unknown_reason{};
  // The last run: of the runs that have released, the run with the newest token. Only with
  // Traits::keeps_last_run, or while --min-hold keeps its lock.
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

// Returns HolderView::granted_at. `granted` and `now` are on the store's clock, which read `now` a
// moment ago. A grant that is not yet, or at 0, is unknown.
std::optional<Deadline> time_of_grant(Micros granted, Micros now);

}  // namespace dlock
