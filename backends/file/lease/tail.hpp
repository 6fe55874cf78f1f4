// SPDX-License-Identifier: Apache-2.0
// The tail of a long queue: the waiters behind the first ones, each a line that is written once.
//
// A hand-off concerns the first waiters only, and with all of them in the slot it would read and
// write the whole queue. So the slot has the first waiters, and says which lines of the tail, a
// part of the same file behind both slots, are the others. Those lines are read when an answer
// depends on them: by a contender in the tail itself, and by `inspect`. A new contender that has to
// wait reads only the last line, and adds its own. When the slot runs out of waiters that are not
// invited, the next lines of the tail become lines of the slot.
//
// A process may be killed (-9) between any two writes, and within a write. A change writes at most
// twice, in this order:
//   1. Lines of the tail, in a place without lines that the slot in force counts: behind their end,
//      before their begin, or anywhere if it counts none. Killed during or after this write: no
//      reader sees a difference, and the next change overwrites the lines.
//   2. The other slot (state_file.hpp). Killed during this write: the slot in force and its lines
//      are untouched. Killed after it: the new slot is in force, and its lines were written before.
// A line is never changed. If its waiter is gone, the slot says so, until the lines that still
// count are written again elsewhere. A reader without the lock may see lines that were overwritten
// since it read the slot. It notices that and reads again: each line has a checksum, tickets rise,
// and newer lines have tickets that the slot had not assigned.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include "file/lease/state_codec.hpp"

namespace dlock::file {

// Only tests use other limits.
struct QueueLimits {
  // How much a slot takes from the tail at once. It has more waiters only if they are invited.
  std::size_t waiters = 16, bytes = 2048;
  // lines are written again when so many of them are gone
  std::size_t gone = 64;
  // ... or when there is so much free space before them
  std::uint64_t free = 64 << 10;
};

inline constexpr std::size_t longest_identity = 1024;  // the last field of a line

struct TailLine {
  std::uint64_t ticket, begin, end;
};

// What to write for a state.
struct Written {
  std::size_t in_slot = 0;  // how many of its waiters are in the slot
  Tail tail;                // says where the others are
  std::uint64_t at = 0;     // `lines` have to be there first
  std::string lines;
};

// `in_force`: the tail of the slot in force. `loaded`: the lines whose waiters are loaded. If
// record.tail has lines but none is loaded, they stay as they are, and record.joins comes after
// them. `joined`: there is a new waiter; only then do waiters of the slot become lines. A hand-off
// takes more waiters into the slot than it may need, and puts none back, because there may be no
// space for them (a full disk).
Written plan(const KeyRecord& record, const Tail& in_force, std::span<const TailLine> loaded,
             const QueueLimits&, bool joined);

// Returns whether a waiter may join after a tail that is not loaded, without writing its lines
// again.
bool has_room(const Tail& in_force, const QueueLimits&) noexcept;

// Returns the most bytes that a slot needs while the present holders and waiters get their turns.
// There may be no new waiter or, after a tail, more exclusive waiters.
std::size_t most_in_slot(const KeyRecord&, const QueueLimits&, bool tail) noexcept;

// Returns whether a slot that has `waiters` waiters of `bytes` in size takes another waiter.
bool has_room(std::size_t waiters, std::size_t bytes, const QueueLimits&) noexcept;

}  // namespace dlock::file
