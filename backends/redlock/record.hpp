// SPDX-License-Identifier: Apache-2.0
// What each master stores about a lock, and under which names: the vote with its record, and a list
// of masters. It is the list of the client that got the key's last confirmed grant. Clients with
// different lists have different majorities, so they would not exclude each other (README.md,
// "Lists").
#pragma once
#include "core/lock_state.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/reply.hpp"
#include "store/backend.hpp"

namespace dlock::redlock {

using redis::Reply;

// The names in the store: the lock, under the name that other Redlock clients use, and dlock's own
// names beside it.
struct Names {
  std::string lock, record, wake;
  explicit Names(std::string lock_name);
  std::vector<std::string> all() const { return {lock, record, wake}; }
  static std::optional<std::string> lock_of(std::string_view record);  // nullopt: not a record
  static std::string records_below(std::string_view prefix);           // pattern for SCAN
};

// Returns the list as text: "db1:6379,db2:6379,db3:7000/0". All clients with the same masters and
// database get the same text, whatever the order is. Two names of one server count as two masters.
std::string list_text(const redis::Options&);

// A list that a master has stored.
struct KnownList {
  std::string text;
  bool marked = false;  // a change from this list to another has begun, and is not finished

  static KnownList parse(std::string_view recorded);
  std::vector<std::string> masters() const;  // "db1:6379"
};

// Returns "db1:6379" for each server, in the order of the URL.
std::vector<std::string> master_names(const redis::Options&);

// What lock_state() in redlock.lua returns about one master.
struct NodeState {
  Micros now = 0;  // the master's clock
  std::string type, value;
  std::optional<Duration> left;  // until the lock ends; nullopt: it has no end, or there is no lock
  FencingToken newest = 0;
  std::string owner;  // the owner that the record names
  FencingToken token = 0;
  Micros since = 0;
  std::string meta;
  std::string list;  // the list of masters that this master has stored

  bool held() const noexcept { return type != "none" && left != Duration{}; }
  // a dlock holds it
  bool ours() const noexcept { return held() && !owner.empty() && value == owner; }
};

// Returns whether the meta of a vote has the mark of script revoke.
bool is_revoked(std::string_view meta) noexcept;
inline constexpr std::string_view stop_mark = "&revoked=1";

// Returns the last run in a meta. nullopt: the meta has none.
std::optional<LastRun> last_run(std::string_view meta);

// Parses the reply of script inspect, or of acquire when busy. nullopt: the reply is malformed.
std::optional<NodeState> parse_state(const Reply&);

// The lock with the most votes. holder.remaining is the time until no majority has that lock any
// more.
struct Leader {
  std::size_t votes = 0;
  std::string value;
  HolderView holder;
  bool ours = false;
};
using NodeStates = std::vector<std::optional<NodeState>>;  // one for each master
Leader leader_of(const NodeStates&, std::size_t majority);

}  // namespace dlock::redlock
