// SPDX-License-Identifier: Apache-2.0
// How the holders of a key are written in dlock_lock.state: text that a person can read, one line each.
//
//   dlock1 <key, percent-encoded>
//   H <owner> <mode> <ticket> <token> <slot> <granted> <since> <deadline> <lock-delay> <who>
//
// Times are microseconds since 1970 on the server's clock. A line or field of another form is refused whole: it may mean a holder.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include "core/lock_state.hpp"

namespace dlock::mysql {

struct Holders {
  std::string key;  // the full one; empty in an empty record
  std::vector<LockState::Holder> list;
  std::map<Owner, Micros> granted;  // when each was let in
};

std::string encode(const Holders&);
std::optional<Holders> decode(std::string_view);

// The record of a grant as an SQL expression, for a statement that decides on `token` and `now` itself, which are expressions, too. Of the
// holder's times only the length of its lease is used.
std::string grant_in_sql(std::string_view key, const LockState::Holder&, std::string_view token, std::string_view now);

// Letters of a row.
std::optional<Mode> parse_mode(std::string_view) noexcept;

}  // namespace dlock::mysql
