// SPDX-License-Identifier: Apache-2.0
// The stored form of a LockState: text that `cat` shows, one line per contender, behind a header of
// fixed width. (The numbers in the header below are numbers of digits.)
//
//   dlock1 <seq, 20> <length of the body, 8> <checksum, 16 hex> <end of the oldest unanswered
//   invitation, 20>
//   K <boot id> <newest token> <next ticket> <key, percent-encoded>
//   H <owner> <mode> <ticket> <token> <slot> <since> <deadline> <lock-delay> <who>         a holder
//   W <owner> <mode> <limit> <ticket> <live until> <invited> <who>                         a waiter
//
// The state file has two slots, each for one such text (state_file.hpp). If there are many waiters,
// only the first of them have a line in the slot. The others are in the tail (tail.hpp), and the
// text in the slot ends with:
//
//   Q <begin> <end> <lines>         where the other waiters are, in bytes of the tail
//   G <ticket>                      a line of the tail whose waiter is gone
//
// A line of the tail is `<checksum, 16 hex> W ...`.
//
// Times are microseconds of CLOCK_BOOTTIME, and `-` means never. The record is text so that an
// operator can read it. For the few contenders of a slot, text costs little compared with the
// system calls. A reader that finds another version or an unknown kind of line refuses the whole
// record, because that line may mean a holder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lock_state.hpp"

namespace dlock::file {

// Says where the waiters are that have no line in the slot. They came after all waiters of the
// slot, and none of them is invited. Empty: all waiters have a line in the slot.
struct Tail {
  std::uint64_t begin = 0, end = 0;  // where the lines begin and end, in bytes of the tail
  std::uint64_t lines = 0;           // the number of these lines, including the lines in `gone`
  std::vector<std::uint64_t> gone;   // tickets of lines whose waiters are gone, in rising order
  bool empty() const noexcept { return lines == 0; }
  bool operator==(const Tail&) const = default;
};

struct KeyRecord {
  LockState state;   // has only the first waiters, until the tail is loaded
  std::string boot;  // the boot id of the machine or container that wrote the record
  std::string key;   // the full key; the name of its directory may be shortened
  Tail tail;
  // Set if a new waiter joins behind a tail that is not loaded.
  std::optional<LockState::Waiter> joins{};
};

inline constexpr std::size_t header_size = 80;
inline constexpr std::uint64_t tail_size = 16 << 20;  // the largest size of the tail

struct Header {
  enum class Kind { empty, other_version, damaged, good };
  Kind kind = Kind::empty;
  std::uint64_t seq = 0, checksum = 0;
  std::size_t length = 0;
  Micros overdue = never;
};

// `text`: as many of the first header_size bytes of a slot as could be read. Kind::empty: the slot
// has nothing, or only zeros.
Header parse_header(std::string_view text) noexcept;

// Returns the digits after "dlock" in a header of another version.
std::string_view layout_of(std::string_view header) noexcept;

// Writes header and body of a slot into `out`, and reuses the memory of `out`. The body has the
// first `in_slot` waiters of the state; `tail` says where the others are.
void encode(const KeyRecord&, std::size_t in_slot, const Tail& tail, std::uint64_t seq,
            std::string& out);

std::uint64_t checksum(std::string_view body, std::uint64_t seq) noexcept;

// nullopt: this version does not know a line or field.
std::optional<KeyRecord> decode(std::string_view body);

void encode_tail_line(const LockState::Waiter&, std::string& out);  // appends
// Returns the waiter of the first line of `text`, and removes that line. nullopt: the line is cut
// off or was overwritten.
std::optional<LockState::Waiter> parse_tail_line(std::string_view& text);

}  // namespace dlock::file
