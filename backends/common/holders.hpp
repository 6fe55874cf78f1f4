// SPDX-License-Identifier: Apache-2.0
// The record of a key's holders in a database column: human-readable text, one holder per line.
//
//   dlock1 <key, percent-encoded>
//   H <owner> <mode> <ticket> <token> <slot> <granted> <since> <deadline> <lock-delay> <who>
//
// Times are microseconds since 1970 by the server's clock. A line or field of another form makes
// the whole record unreadable, because the unknown text may mean a holder.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include "core/lock_state.hpp"

namespace dlock {

struct Holders {
  std::string key;  // the full key; empty in an empty record
  std::vector<LockState::Holder> list;
  std::map<Owner, Micros> granted;  // the time of each grant

  Micros granted_at(const LockState::Holder&) const;
  // Returns the record for a changed LockState. In the LockState the deadline of every holder
  // except `me` includes `skew`; the record gets the deadlines without `skew`. If `me` is nullptr,
  // no deadline includes `skew`.
  Holders changed_to(const LockState&, const Owner* me, Micros skew) const;
};

// How the job under a lease ended, for the record of the last run.
struct EndedRun {
  FencingToken token;
  Micros granted;
  std::string_view ended;  // RunEnd::text
  std::string who;
};
// Returns the EndedRun of the owner's lease, with the text `ended`. nullopt: `ended` is empty, or
// the owner is not a holder.
std::optional<EndedRun> run_of(const Holders&, const Owner&, std::string_view ended);

inline constexpr std::string_view holders_magic = "dlock1 ";

std::string encode(const Holders&);
std::optional<Holders> decode(std::string_view);

}  // namespace dlock
