// SPDX-License-Identifier: Apache-2.0
// The tail of a long queue: one line for each waiter behind the first ones. A line is written once.
//
// The state of a key is in one of the two slots of its file: the slot in force (state_file.hpp). A
// hand-off concerns only the first waiters. If the slot had all waiters, a hand-off would read and
// write the whole queue. So the slot has only the first waiters, and says which lines of the tail
// are the other waiters. The tail is a part of the same file, behind both slots. Its lines are read
// only when an answer depends on them: by a contender that is in the tail, and by `inspect`. A new
// contender that has to wait reads only the last line, and adds a line of its own. When all waiters
// of the slot are invited, the next lines of the tail become lines of the slot.
//
// A process may be killed (-9) between any two writes, and within a write. A change writes at most
// twice, in this order:
//   1. Lines of the tail, in a place where the slot in force has no lines: behind its lines, before
//      them, or anywhere if it has none. If the process is killed during or after this write, no
//      reader sees a difference, and the next change overwrites the new lines.
//   2. The slot that is not in force (state_file.hpp). If the process is killed during this write,
//      the slot in force and its lines are untouched. If the process is killed after it, the new
//      slot is in force, and the lines of that slot were written before it.
// A line is never changed. If the waiter of a line is gone, the slot lists the ticket of that
// waiter, until the lines of the remaining waiters are written again in another place. A reader
// without the lock may read lines that were overwritten after it had read the slot. The reader
// notices that, and reads again: each line has a checksum, tickets rise from line to line, and
// newer lines have tickets that the slot had not assigned yet.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include "file/lease/state_codec.hpp"

namespace dlock::file {

// Only tests use other limits.
struct QueueLimits {
  // How many waiters, and how many bytes of waiters, a slot takes from the tail at once. A slot has
  // more waiters only if they are invited.
  std::size_t waiters = 16, bytes = 2048;
  // If more than this number of lines have waiters that are gone, the lines are written again.
  std::size_t gone = 64;
  // The lines are also written again when a waiter joins and the free space before the lines is
  // larger than `free` plus twice their size.
  std::uint64_t free = 64 << 10;
};

inline constexpr std::size_t longest_identity = 1024;  // bytes of the last field of a line, at most

// A line, from byte `begin` to byte `end` of the tail.
struct TailLine {
  std::uint64_t ticket, begin, end;
};

// What to write for a state.
struct Written {
  std::size_t in_slot = 0;  // how many waiters of the state are in the slot
  Tail tail;                // says where the others are
  std::uint64_t at = 0;     // the place in the tail where `lines` must be written, before the slot
  std::string lines;
};

// Decides which waiters are in the slot, and which lines of the tail must be written. `in_force`:
// the tail of the slot in force. `loaded`: the lines whose waiters are loaded. If record.tail has
// lines but none of them is loaded, the lines stay as they are, and record.joins comes after them.
// `joined`: there is a new waiter. Only then may waiters move from the slot to the tail. A hand-off
// may take more waiters into the slot than it needs. It puts none of them back, because there may
// be no space for their lines (a full disk).
Written plan(const KeyRecord& record, const Tail& in_force, std::span<const TailLine> loaded,
             const QueueLimits&, bool joined);

// Returns whether a waiter may join after a tail that is not loaded, without a need to write the
// lines of the tail again.
bool has_room(const Tail& in_force, const QueueLimits&) noexcept;

// Returns the most bytes that a slot can need until all present holders and waiters have had their
// turns. If `tail` is true, the number is also enough for exclusive waiters that join later behind
// the tail. It does not cover any other new waiter.
std::size_t most_in_slot(const KeyRecord&, const QueueLimits&, bool tail) noexcept;

// Returns whether a slot that has `waiters` waiters with `bytes` bytes in total takes another
// waiter.
bool has_room(std::size_t waiters, std::size_t bytes, const QueueLimits&) noexcept;

}  // namespace dlock::file
