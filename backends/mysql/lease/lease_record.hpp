// SPDX-License-Identifier: Apache-2.0
// The holders of a key in dlock_lock.state: human-readable text, one line each.
//
//   dlock1 <key, percent-encoded>
//   H <owner> <mode> <ticket> <token> <slot> <granted> <since> <deadline> <lock-delay> <who>
//
// Times are microseconds since 1970 on the server's clock. A line or field of another form makes
// the whole record refused: it may mean a holder.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include "core/lock_state.hpp"
#include "mysql/client/connection.hpp"

namespace dlock::mysql {

struct Holders {
  std::string key;  // the full one; empty in an empty record
  std::vector<LockState::Holder> list;
  std::map<Owner, Micros> granted;  // the time of each grant
};

std::string encode(const Holders&);
std::optional<Holders> decode(std::string_view);

// The record of a grant as an SQL expression, for a statement that computes `now` itself, which is
// an expression, too, and the token; with `?` for the values of grant_values(). Of the holder's
// times only the length of its lease is used.
std::string grant_in_sql(std::string_view now);
std::array<Value, 4> grant_values(std::string_view key, const LockState::Holder&);

}  // namespace dlock::mysql
