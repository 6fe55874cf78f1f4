// SPDX-License-Identifier: Apache-2.0
#include "core/lock_state.hpp"
#include <algorithm>
#include <stdexcept>

namespace dlock {
namespace {

// Counts the holders, and the waiters that would hold beside them if each took its turn now.
struct Tally {
  std::size_t count = 0;
  // The smallest limit of the permit waiters that were let in. A later waiter may run only while
  // `count` is below this limit, so that the permit waiters can all still hold.
  std::size_t room = SIZE_MAX;
  bool exclusive = false;

  bool admits(Mode mode, unsigned limit) const noexcept {
    if (mode == Mode::exclusive) return count == 0;
    return !exclusive && count < room && (mode == Mode::shared || count < limit);
  }
  void add(Mode mode) noexcept {
    ++count;
    exclusive |= mode == Mode::exclusive;
  }
  // Returns whether the waiter may run. If so, it counts as a holder for the waiters behind it.
  bool let_in(const LockState::Waiter& w) noexcept {
    if (!admits(w.mode, w.limit)) return false;
    add(w.mode);
    if (w.mode == Mode::permit) room = std::min<std::size_t>(room, w.limit);
    return true;
  }
};

// Counts the holders after expire(). A vanished holder counts until its lock-delay is over.
Tally inside(const LockState& s) noexcept {
  Tally t;
  for (const auto& h : s.holders) t.add(h.mode);
  return t;
}

// Returns whether the waiter at `rank` may run. The waiter that came first is served first, but
// nobody waits needlessly: a waiter may run if it and all waiters ahead of it could hold at the
// same time, in any order. So readers run together, but never overtake an earlier writer.
bool may_run(const LockState& s, std::size_t rank, Mode mode, unsigned limit) noexcept {
  Tally t = inside(s);
  for (std::size_t i = 0; i < rank; ++i)
    if (!t.let_in(s.waiters[i])) return false;
  return t.admits(mode, limit);
}

unsigned lowest_free_slot(const LockState& s) noexcept {
  unsigned slot = 0;
  const auto taken = [&](const LockState::Holder& h) {
    return h.mode == Mode::permit && h.slot == slot;
  };
  while (std::ranges::any_of(s.holders, taken)) ++slot;
  return slot;
}

LockState::Holder* held_by(LockState& s, const Owner& owner, Micros now) noexcept {
  return const_cast<LockState::Holder*>(s.holder(owner, now));
}

}  // namespace

LockState::Answer LockState::acquire(const Acquisition& wanted, Micros now) {
  for (Waiter& w : waiters)
    if (w.owner == wanted.owner)
      // the request proves that its owner is alive, whatever the clock says
      w.live_until = after(now, wanted.patience);
  expire(now);
  if (const Holder* h = holder(wanted.owner, now)) return Granted{h->token, h->ticket, h->slot};

  const std::size_t rank = rank_of(wanted.owner);
  const bool queued = rank < waiters.size();
  if (!wanted.queue_only && may_run(*this, rank, wanted.mode, wanted.limit)) {
    if (fence == UINT64_MAX)
      // The record is damaged. The next token would be 0, which would make every fence useless.
      throw std::overflow_error("no fencing token is left");
    const std::uint64_t ticket = queued ? waiters[rank].ticket : next_ticket++;
    if (queued) waiters.erase(waiters.begin() + static_cast<std::ptrdiff_t>(rank));
    fence = std::max(fence + 1, wanted.token_floor);
    const unsigned slot = wanted.mode == Mode::permit ? lowest_free_slot(*this) : 0;
    holders.push_back({wanted.owner, wanted.mode, ticket, fence, slot, now, after(now, wanted.ttl),
                       wanted.delay, wanted.meta});
    return Granted{fence, ticket, slot};
  }
  if (!wanted.wait) return Busy{free_at()};
  if (!queued)
    waiters.push_back(
        {wanted.owner, wanted.mode, wanted.limit, next_ticket++, never, false, wanted.meta});
  waiters[rank].live_until = after(now, wanted.patience);
  waiters[rank].invited = false;  // if it was invited, that led to no grant: invite it again later
  return Waiting{rank, free_at()};
}

std::optional<FencingToken> LockState::renew(const Owner& owner, Micros ttl, Micros now) {
  expire(now);
  Holder* h = held_by(*this, owner, now);
  if (!h) return std::nullopt;
  h->since = now;
  h->deadline = after(now, ttl);
  return h->token;
}

void LockState::note_end(const Owner& owner, std::string_view ended) {
  for (Holder& h : holders)
    if (h.owner == owner) h.meta = with_end(h.meta, ended);
}

bool LockState::release(const Owner& owner, Micros now) {
  expire(now);
  return std::erase_if(holders,
                       [&](const Holder& h) { return h.owner == owner && h.deadline > now; }) > 0;
}

bool LockState::cancel(const Owner& owner) {
  return std::erase_if(waiters, [&](const Waiter& w) { return w.owner == owner; }) > 0;
}

std::size_t LockState::force_release(FencingToken token) {
  return std::erase_if(holders, [&](const Holder& h) { return token == 0 || h.token == token; });
}

bool LockState::vanish(std::uint64_t ticket, Micros now) {
  expire(now);
  bool hit = std::erase_if(waiters, [&](const Waiter& w) { return w.ticket == ticket; }) > 0;
  for (Holder& h : holders) {
    if (h.ticket != ticket || h.deadline <= now) continue;
    h.deadline = now;
    hit = true;
  }
  expire(now);
  return hit;
}

void LockState::expire(Micros now) {
  std::erase_if(holders, [&](const Holder& h) { return h.free_at() <= now; });
  std::erase_if(waiters, [&](const Waiter& w) { return w.live_until <= now; });
}

std::vector<std::uint64_t> LockState::invite(Micros now, Micros claim) {
  expire(now);  // a waiter that has expired blocks no other
  std::vector<std::uint64_t> tickets;
  Tally t = inside(*this);
  for (Waiter& w : waiters) {
    if (!t.let_in(w)) break;
    if (w.invited) continue;
    w.invited = true;
    w.live_until = std::min(w.live_until, after(now, claim));
    tickets.push_back(w.ticket);
  }
  return tickets;
}

// Returns the earliest time at which a holder ends, a waiter that may run loses its turn, or the
// first waiter that may not run expires. (The waiters behind this waiter depend on it.)
Micros LockState::free_at() const noexcept {
  Micros at = never;
  for (const Holder& h : holders) at = std::min(at, h.free_at());
  Tally t = inside(*this);
  for (const Waiter& w : waiters) {
    at = std::min(at, w.live_until);
    if (!t.let_in(w)) break;
  }
  return at;
}

Micros LockState::oldest_invitation_ends() const noexcept {
  Micros at = never;
  for (const Waiter& w : waiters)
    if (w.invited) at = std::min(at, w.live_until);
  return at;
}

const LockState::Holder* LockState::holder(const Owner& owner, Micros now) const noexcept {
  for (const Holder& h : holders)
    if (h.owner == owner && h.deadline > now) return &h;
  return nullptr;
}

std::size_t LockState::rank_of(const Owner& owner) const noexcept {
  const auto at = std::ranges::find(waiters, owner, &Waiter::owner);
  return static_cast<std::size_t>(at - waiters.begin());
}

bool is(const LockState::Holder& h, const GrantId& id) noexcept {
  const auto* owner = std::get_if<Owner>(&id);
  return owner ? h.owner == *owner : h.token == *std::get_if<FencingToken>(&id);
}

}  // namespace dlock
