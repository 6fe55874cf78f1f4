// SPDX-License-Identifier: Apache-2.0
#include "file/lease/tail.hpp"
#include <algorithm>

namespace dlock::file {
namespace {

using Waiters = std::vector<LockState::Waiter>;

// Returns whether the waiter can be a line of the tail. dlock writes no ticket out of order. If a
// record has such a ticket, its waiter stays in the slot.
bool fits_tail(const LockState& s, std::size_t i) noexcept {
  const auto& w = s.waiters[i];
  return !w.invited && w.live_until == never && w.ticket < s.next_ticket &&
         (i == 0 || s.waiters[i - 1].ticket < w.ticket);
}

std::size_t waiters_in_slot(const LockState& s, std::span<const TailLine> loaded,
                            const QueueLimits& limits) {
  const Waiters& all = s.waiters;
  std::size_t n = 0;
  if (loaded.empty()) {
    for (std::size_t bytes = 0; n < all.size() && has_room(n, bytes, limits); ++n) {
      constexpr std::size_t fixed = 70;  // about the size of a line without its last field
      bytes += fixed + all[n].meta.size();
    }
  } else {
    while (n < all.size() && all[n].ticket < loaded.front().ticket) ++n;
  }
  for (std::size_t i = all.size(); i-- > n;)
    if (!fits_tail(s, i)) return i + 1;
  return n;
}

// Returns a position in the tail for `size` bytes of new lines, where they do not overwrite lines
// that the slot in force needs.
std::uint64_t free_place(const Tail& in_force, std::size_t size) noexcept {
  return in_force.empty() || size <= in_force.begin ? 0 : in_force.end;
}

void write_again(Written& w, const Waiters& all, const Tail& in_force) {
  w.lines.clear();
  for (std::size_t i = w.in_slot; i < all.size(); ++i) encode_tail_line(all[i], w.lines);
  w.at = free_place(in_force, w.lines.size());
  w.tail = {w.at, w.at + w.lines.size(), all.size() - w.in_slot, {}};
}

}  // namespace

bool has_room(std::size_t waiters, std::size_t bytes, const QueueLimits& limits) noexcept {
  return waiters == 0 || (waiters < limits.waiters && bytes < limits.bytes);
}

// Returns false if there is so much free space before the lines that they should be written again:
// only this makes use of the space.
bool has_room(const Tail& in_force, const QueueLimits& limits) noexcept {
  return in_force.begin <= limits.free + 2 * (in_force.end - in_force.begin);
}

Written plan(const KeyRecord& record, const Tail& in_force, std::span<const TailLine> loaded,
             const QueueLimits& limits, bool joined) {
  const Waiters& all = record.state.waiters;
  Written w;
  if (loaded.empty() && (!joined || record.joins)) {
    w.in_slot = all.size();
    w.tail = record.tail;
    if (!record.joins) return w;
    encode_tail_line(*record.joins, w.lines);
    w.at = in_force.end;
    w.tail.end = w.at + w.lines.size();
    ++w.tail.lines;
    return w;
  }
  w.in_slot = waiters_in_slot(record.state, loaded, limits);
  if (w.in_slot == all.size()) return w;

  // Keep the lines from the first to the last waiter that stays, and list in `gone` those in
  // between whose waiters are gone.
  std::size_t next = w.in_slot, kept = 0;
  for (const TailLine& line : loaded) {
    if (next < all.size() && all[next].ticket == line.ticket) {
      if (kept++ == 0) w.tail.begin = line.begin;
      ++next;
    } else if (kept > 0) {
      w.tail.gone.push_back(line.ticket);
    }
  }
  const std::size_t added = all.size() - next;
  const Tail living{w.tail.begin, in_force.end, kept, {}};
  if (kept == 0 || w.tail.gone.size() > limits.gone || (added > 0 && !has_room(living, limits))) {
    write_again(w, all, in_force);
    return w;
  }
  for (; next < all.size(); ++next) encode_tail_line(all[next], w.lines);
  w.at = in_force.end;
  w.tail.end = w.at + w.lines.size();
  w.tail.lines = kept + w.tail.gone.size() + added;
  return w;
}

// All readers and permits may be lines of the slot at once. Among exclusive waiters, only the
// invited waiter and the waiters that the slot takes from the tail may be lines of the slot.
std::size_t most_in_slot(const KeyRecord& record, const QueueLimits& limits, bool tail) noexcept {
  constexpr std::size_t head = 256, number = 12;
  constexpr std::size_t fixed = 140;  // the size of a line without its last field
  std::size_t exclusive = 0, others = 0, longest = longest_identity + fixed;
  for (const auto& h : record.state.holders) others += fixed + h.meta.size();
  for (const auto& w : record.state.waiters) {
    const std::size_t line = fixed + w.meta.size();
    (w.mode == Mode::exclusive ? exclusive : others) += line;
    longest = std::max(longest, line);
  }
  const std::size_t first = limits.bytes + limits.waiters * fixed + 2 * longest;
  return head + record.key.size() + limits.gone * number + others +
         (tail ? first : std::min(exclusive, first));
}

}  // namespace dlock::file
