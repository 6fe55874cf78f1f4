// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "core/backend.hpp"
#include "core/lock_state.hpp"
#include "redlock/masters.hpp"

namespace dlock::redlock {

// The result of seen() in state.lua of one master.
struct Seen {
  Micros now = 0;  // its clock
  std::string type, value;
  std::optional<Duration> left;  // until its lock ends; nothing: it has no end, or there is none
  FencingToken newest = 0;
  std::string owner;  // of the record
  FencingToken token = 0;
  Micros since = 0;
  std::string meta;
  std::string list;  // that is known there (known_list.hpp)

  bool held() const noexcept { return type != "none" && left != Duration{}; }
  // by some dlock
  bool ours() const noexcept { return held() && !owner.empty() && value == owner; }
};

// The mark of revoke.lua in the meta of a vote.
bool asked_to_stop(std::string_view meta) noexcept;
inline constexpr std::string_view stop_mark = "&revoked=1";

// The last run in a meta; nothing: there is none.
std::optional<LastRun> last_run(std::string_view meta);

// From the replies of look.lua, or of acquire.lua when busy. Nothing: malformed.
std::optional<Seen> parse_seen(const Reply&);

// The lock with the most of these votes. Its remaining time is that until no majority has it any
// more.
struct Leader {
  std::size_t votes = 0;
  std::string value;
  HolderView holder;
  bool ours = false;
};
Leader leader_of(const std::vector<std::optional<Seen>>&, std::size_t majority);

}  // namespace dlock::redlock
