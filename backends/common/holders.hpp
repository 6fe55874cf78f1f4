// SPDX-License-Identifier: Apache-2.0
// The holders of a key in a column of a database: human-readable text, one line each.
//
//   dlock1 <key, percent-encoded>
//   H <owner> <mode> <ticket> <token> <slot> <granted> <since> <deadline> <lock-delay> <who>
//
// Times are microseconds since 1970 on the server's clock. A line or field of another form makes
// the whole record refused: it may mean a holder.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include "core/lock_state.hpp"

namespace dlock {

struct Holders {
  std::string key;  // the full one; empty in an empty record
  std::vector<LockState::Holder> list;
  std::map<Owner, Micros> granted;  // the time of each grant
};

inline constexpr std::string_view holders_magic = "dlock1 ";

std::string encode(const Holders&);
std::optional<Holders> decode(std::string_view);

}  // namespace dlock
