// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include "core/identity.hpp"
#include "core/lock_state.hpp"
#include "store/last_run.hpp"

namespace dlock {

struct HolderView {  // what people see; the deciding copy is in the store
  std::string id;    // a prefix of the owner id, enough to tell holders apart, useless as a handle
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;
  bool attached = false;
  bool vanished = false;              // gone; only its lock-delay still runs
  std::optional<Duration> remaining;  // until the lease (or lock-delay) ends without a renewal
  // since the grant, by the store's clock; nullopt: the store does not keep it
  std::optional<Duration> held;
  bool revoked = false;  // it was asked to stop (Backend::revoke)
  // Why Backend::force_release cannot remove it, and what ends it, for people; empty: it can.
  std::string stays_because{};
  Identity who;
  // Lease and lock-delay are over, or a process without lock-delay is gone: nothing holds the key
  // any more, and the store has not cleared the record away.
  bool ended() const noexcept { return remaining && *remaining <= Duration{}; }
};
struct WaiterView {
  std::string id;
  Mode mode = Mode::exclusive;
  Identity who;
};
struct KeyView {
  std::string key;
  FencingToken fence = 0;           // newest token granted
  std::vector<HolderView> holders;  // those that have ended come last
  std::vector<WaiterView> waiters;  // in queue order
  bool waiters_known = true;        // false: this recipe cannot know
  std::vector<std::string> notes;   // remarks about this record, for people
  // Not empty: why there may be holders that are not in `holders`, for people. A key without one is
  // not known to be free then.
  std::string unread{};
  // With Traits::keeps_last_run: of the newest token of those released.
  std::optional<LastRun> last_run{};
  // The newest start noted (Backend::note_start), by the same clock, while the store keeps it.
  std::optional<std::int64_t> noted_start{};
};

// The view of a store that keeps a LockState. `now` on the store's clock; holders that have ended
// come last, and dead waiters are left out.
HolderView view(const LockState::Holder& holder, Micros now);
WaiterView view(const LockState::Waiter& waiter);
KeyView view(const LockState& state, std::string key, Micros now);
void ended_last(KeyView&);  // the others keep their order

}  // namespace dlock
