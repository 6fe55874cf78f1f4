// SPDX-License-Identifier: Apache-2.0
// The children of a lock's directory: what their names mean in each dialect, their order, and which
// contenders may hold the lock. No I/O.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lease.hpp"

namespace dlock::zookeeper {

// The form of node names. Programs that share a directory sort its nodes by these names. A
// directory has one dialect: nodes of another dialect would be sorted wrongly, and two holders
// would run.
enum class Dialect {
  // `_c_<guid>-__WRIT__<n>`, `-__READ__<n>`: Curator's InterProcessReadWriteLock. Two forms are
  // dlock's own. `-__SEMA__-__WRIT__<n>` is a permit; Curator takes the permit for a writer and
  // waits for it. `-__DLCK__-__READ__<n>` is a reader that may hold the lock together with permits;
  // a reader of Curator may not.
  sequential,
  curator,  // `_c_<guid>-lock-<n>`: Curator's InterProcessMutex, go-zookeeper
  kazoo,    // `<32 hex>__lock__<n>`: kazoo's Lock
};

// nullopt: the recipe has no queue (ephemeral)
std::optional<Dialect> dialect_of(std::string_view recipe) noexcept;

struct Member {
  std::string name;
  std::int32_t number = 0;  // from the server's 32-bit counter, which wraps around
  Mode mode = Mode::exclusive;
  bool foreign = false;  // a reader of another program; it takes dlock's permits for writers
};

// Returns whether `a` was numbered before `b`. This serial arithmetic is correct across the wrap if
// fewer than 2^31 numbers lie between the two.
constexpr bool before(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b)) <
         0;
}

// Returns the part of a node's name that identifies its owner. If a create got no reply, a node
// with this part shows that the create was carried out.
std::string guid_of(Dialect, const Owner&);
// Returns the name to create. The server appends a number.
std::string node_prefix(Dialect, const Owner&, Mode);
// Returns whether the name ends with a number of the server, whichever program created the node.
bool is_sequential(std::string_view name) noexcept;
std::optional<Member> parse_member(Dialect, std::string_view name);

// Returns the name of a helper node beside the queue (dialect sequential), which reserves the slot
// of a permit. Other programs sort nodes by a tag or number at the end. This name has neither, so
// they never wait for the node.
std::string slot_node(unsigned slot);
std::optional<unsigned> parse_slot(std::string_view name);

// The node with the last start that --once-per recorded.
inline constexpr std::string_view start_node = "started";
// Returns the name of a node that exists only for a moment, to learn the time of the leader's
// clock: only the reply to a write contains this time.
std::string clock_node();
// Returns whether this is the name of a node of dlock that has no place in the queue.
bool is_helper_node(Dialect, std::string_view name);

// A directory, as it was listed.
struct Directory {
  std::vector<Member> queue;  // in the order of the queue
  std::vector<unsigned> slots;
  std::string foreign;  // a node of another dialect; empty: there is none

  static Directory of(Dialect, const std::vector<std::string>& names);
  const Member* find(std::string_view name) const;
};

// Says whether a contender may hold the lock, and otherwise what it must watch.
struct Verdict {
  enum class What {
    run,
    missing,        // the contender is not in the directory
    wait_deletion,  // wait until `watch` is deleted
    // Wait until `watch` is deleted or gets new data. (A permit that is granted writes new data, to
    // wake the next permit.)
    wait_turn,
    // The contender is the first that waits for a permit: wait for any change in the directory.
    wait_room,
  } what;
  std::string watch{};
  std::size_t ahead = 0;     // waiters before the contender
  std::string in_the_way{};  // a holder that blocks this contender
};
Verdict decide(const Directory&, std::string_view name, unsigned limit);

// Returns whether contender `at` holds the lock, as far as names show this. (For a permit, only the
// node's data show this.)
bool runs(const Directory&, std::size_t at, unsigned limit);

}  // namespace dlock::zookeeper
