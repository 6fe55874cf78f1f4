// SPDX-License-Identifier: Apache-2.0
#include "core/lock_view.hpp"
#include <utility>

namespace dlock {
namespace {

// 32 of 128 bits: enough to tell holders apart, far too few to guess the handle.
std::string short_id(const Owner& owner) { return owner.hex().substr(0, 8); }

}  // namespace

HolderView view(const LockState::Holder& h, Micros now) {
  HolderView v;
  v.id = short_id(h.owner);
  v.mode = h.mode;
  v.token = h.token;
  v.slot = h.slot;
  v.attached = h.deadline == never;
  v.vanished = h.deadline <= now;
  // of a lease `since` is the last renewal
  if (v.attached && h.since <= now) v.held = Duration{now - h.since};
  if (h.free_at() != never) v.remaining = Duration{(v.vanished ? h.free_at() : h.deadline) - now};
  v.who = Identity::decode(h.meta);
  return v;
}

WaiterView view(const LockState::Waiter& w) {
  return {short_id(w.owner), w.mode, Identity::decode(w.meta)};
}

KeyView view(const LockState& state, std::string key, Micros now) {
  LockState s = state;
  s.expire(now);
  KeyView v;
  v.key = std::move(key);
  v.fence = s.fence;
  for (const auto& h : s.holders) v.holders.push_back(view(h, now));
  for (const auto& w : s.waiters) v.waiters.push_back(view(w));
  return v;
}

}  // namespace dlock
