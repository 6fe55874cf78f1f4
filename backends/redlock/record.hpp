// SPDX-License-Identifier: Apache-2.0
// What each master keeps of a lock: its names, the vote with its record, and the list of masters of
// the key's last confirmed grant. A client with another list has other majorities, and would not
// exclude (README.md, "Lists").
#pragma once
#include "core/lock_state.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/reply.hpp"
#include "store/backend.hpp"

namespace dlock::redlock {

using redis::Reply;

// The names in the store: the lock under the other clients' name, and dlock's own names beside it.
struct Names {
  std::string lock, record, wake;
  explicit Names(std::string lock_name);
  std::vector<std::string> all() const { return {lock, record, wake}; }
  static std::optional<std::string> lock_of(std::string_view record);  // nothing: not a record
  static std::string records_below(std::string_view prefix);           // pattern for SCAN
};

// "db1:6379,db2:6379,db3:7000/0": the same for all clients with the same masters and database, in
// any order. Two names of one server count as two masters.
std::string list_text(const redis::Options&);

// A list that a master has stored.
struct KnownList {
  std::string text;
  bool marked = false;  // a change from this list has begun, and is not finished

  static KnownList parse(std::string_view recorded);
  std::vector<std::string> masters() const;  // "db1:6379"
};

// "db1:6379" of each server, in the order of the URL.
std::vector<std::string> master_names(const redis::Options&);

// What lock_state() in redlock.lua returns about one master.
struct NodeState {
  Micros now = 0;  // the master's clock
  std::string type, value;
  std::optional<Duration> left;  // until the lock ends; nothing: it has no end, or there is no lock
  FencingToken newest = 0;
  std::string owner;  // as the record says
  FencingToken token = 0;
  Micros since = 0;
  std::string meta;
  std::string list;  // the list of masters that is known there

  bool held() const noexcept { return type != "none" && left != Duration{}; }
  // a dlock holds it
  bool ours() const noexcept { return held() && !owner.empty() && value == owner; }
};

// Whether the meta of a vote has the mark of script revoke.
bool is_revoked(std::string_view meta) noexcept;
inline constexpr std::string_view stop_mark = "&revoked=1";

// The last run in a meta; nothing: the meta has none.
std::optional<LastRun> last_run(std::string_view meta);

// Parses the reply of script inspect, or of acquire when busy. Nothing: malformed.
std::optional<NodeState> parse_state(const Reply&);

// The lock with the most votes. Its remaining time ends when no majority has it any more.
struct Leader {
  std::size_t votes = 0;
  std::string value;
  HolderView holder;
  bool ours = false;
};
using NodeStates = std::vector<std::optional<NodeState>>;  // per master
Leader leader_of(const NodeStates&, std::size_t majority);

}  // namespace dlock::redlock
