// SPDX-License-Identifier: Apache-2.0
#include "store/key_view.hpp"
#include <algorithm>
#include <climits>
#include <utility>

namespace dlock {
namespace {

// The id is 32 of 128 bits: enough to tell holders apart, far too few to guess the handle.
std::string short_id(const Owner& owner) { return owner.hex().substr(0, 8); }

}  // namespace

std::optional<Duration> HolderView::held(Deadline now) const {
  if (!granted_at) return std::nullopt;
  return std::chrono::duration_cast<Duration>(now - *granted_at);
}

std::optional<Deadline> time_of_grant(Micros granted, Micros now) {
  if (granted <= 0 || granted > now) return std::nullopt;
  return later(Clock::now(), Duration{granted - now});
}

HolderView view(const LockState::Holder& h, Micros now) {
  HolderView v;
  v.id = short_id(h.owner);
  v.mode = h.mode;
  v.token = h.token;
  v.slot = h.slot;
  v.attached = h.deadline == never;
  v.vanished = h.deadline <= now;
  // for a lease, `since` is the time of the last renewal
  if (v.attached) v.granted_at = time_of_grant(h.since, now);
  if (h.free_at() != never)  // a damaged record may say anything: avoid an overflow
    v.remaining = Duration{std::max<Micros>(0, v.vanished ? h.free_at() : h.deadline) - now};
  v.who = Identity::decode(h.meta);
  return v;
}

WaiterView view(const LockState::Waiter& w) {
  WaiterView v{short_id(w.owner), w.mode, Identity::decode(w.meta)};
  if (w.mode == Mode::permit && w.limit != UINT_MAX) v.who.limit = w.limit;
  return v;
}

KeyView view(const LockState& state, std::string key, Micros now) {
  LockState s = state;
  s.expire(now);
  KeyView v;
  v.key = std::move(key);
  v.fence = s.fence;
  for (const auto& h : state.holders) v.holders.push_back(view(h, now));
  for (const auto& w : s.waiters) v.waiters.push_back(view(w));
  ended_last(v);
  return v;
}

void ended_last(KeyView& v) {
  std::stable_partition(v.holders.begin(), v.holders.end(),
                        [](const HolderView& h) { return !h.ended(); });
}

}  // namespace dlock
