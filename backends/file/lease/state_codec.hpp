// SPDX-License-Identifier: Apache-2.0
// The stored form of a LockState: text that `cat` shows, one line per contender, behind a header of
// fixed width.
//
//   dlock1 <seq, 20> <length of the body, 8> <checksum, 16 hex> <end of the oldest unanswered
//   invitation, 20>
//   K <boot id> <newest token> <next ticket> <key, percent-encoded>
//   H <owner> <mode> <ticket> <token> <slot> <since> <deadline> <lock-delay> <who>         a holder
//   W <owner> <mode> <limit> <ticket> <live until> <invited> <who>                         a waiter
//
// Times are microseconds of CLOCK_BOOTTIME, `-` is never. Text, not binary: encoding and decoding
// cost about 0.3 us per contender, which is small beside the system calls, and an operator can read
// it. A reader that finds another version or another kind of line refuses the whole record, because
// it may mean a holder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include "core/lock_state.hpp"

namespace dlock::file {

struct KeyRecord {
  LockState state;
  std::string boot;  // of the machine or container that wrote it
  std::string key;   // the full one
};

inline constexpr std::size_t header_size = 80;

struct Header {
  enum class Kind { empty, other_version, damaged, good };
  Kind kind = Kind::empty;
  std::uint64_t seq = 0, checksum = 0;
  std::size_t length = 0;
  Micros overdue = never;
};

// `text`: the readable part of the first header_size bytes of a slot. Empty: nothing, or only
// zeros.
Header parse_header(std::string_view text) noexcept;

// The digits behind "dlock" in a header of another version.
std::string_view layout_of(std::string_view header) noexcept;

// Appends header and body. Call with an empty `out`; its allocated memory is reused.
void encode(const KeyRecord&, std::uint64_t seq, std::string& out);

std::uint64_t checksum(std::string_view body, std::uint64_t seq) noexcept;

// Nothing: a line or a field is not of this version.
std::optional<KeyRecord> decode(std::string_view body);

}  // namespace dlock::file
