// SPDX-License-Identifier: Apache-2.0
// The children of a lock's directory: what their names mean in each dialect, their order, and which
// of them may hold. No I/O.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lease.hpp"

namespace dlock::zookeeper {

// The node names of programs that share a directory. A directory has one dialect: nodes of another
// dialect sort wrongly, and both holders would run.
enum class Dialect {
  // `_c_<guid>-__WRIT__<n>`, `-__READ__<n>`: Curator's InterProcessReadWriteLock. Two names are
  // dlock's own. `-__SEMA__-__WRIT__<n>` is a permit; Curator takes the permit for a writer and
  // waits for it. `-__DLCK__-__READ__<n>` is a reader that may hold together with permits; a reader
  // of Curator may not.
  sequential,
  curator,  // `_c_<guid>-lock-<n>`: Curator's InterProcessMutex, go-zookeeper
  kazoo,    // `<32 hex>__lock__<n>`: kazoo's Lock
};

// nothing: the recipe has no queue (ephemeral)
std::optional<Dialect> dialect_of(std::string_view recipe) noexcept;

struct Member {
  std::string name;
  std::int32_t number = 0;  // the server's 32-bit counter, which wraps around
  Mode mode = Mode::exclusive;
  bool foreign = false;  // a reader of another program, which takes a permit for a writer
};

// Returns whether `a` was numbered before `b`. This serial arithmetic is correct across the wrap if
// fewer than 2^31 numbers lie between the two.
constexpr bool before(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b)) <
         0;
}

// Returns the part of a node's name that identifies its owner. It shows that a request whose reply
// was lost was carried out.
std::string guid_of(Dialect, const Owner&);
// Returns the name to create. The server appends its number.
std::string node_prefix(Dialect, const Owner&, Mode);
// Returns whether the name ends like the server's numbers, whichever program made it.
bool is_sequential(std::string_view name) noexcept;
std::optional<Member> parse_member(Dialect, std::string_view name);

// A helper node of dlock beside the queue (dialect sequential): the owner of a permit's slot. Other
// programs sort nodes by a tag or number at the end. It has none, so they never wait for it.
std::string slot_node(unsigned slot);
std::optional<unsigned> parse_slot(std::string_view name);

// The node with the last start that --once-per recorded.
inline constexpr std::string_view start_node = "started";
// A node that exists for a moment: only the reply to a write has the time of the leader's clock.
std::string clock_node();
// Returns whether it is a node of dlock without a place in the queue.
bool is_helper_node(Dialect, std::string_view name);

// A directory as listed.
struct Directory {
  std::vector<Member> queue;  // in order
  std::vector<unsigned> slots;
  std::string foreign;  // a node of another dialect; empty: there is none

  static Directory of(Dialect, const std::vector<std::string>& names);
  const Member* find(std::string_view name) const;
};

// Whether a member may hold, and what it must watch otherwise.
struct Verdict {
  enum class What {
    run,
    missing,        // it is not in the directory
    wait_deletion,  // until `watch` is deleted
    // Until `watch` is deleted or its data change. (A granted permit changes its data to wake the
    // next one.)
    wait_turn,
    wait_room,  // the first waiter without a permit waits for any change in the directory
  } what;
  std::string watch{};
  std::size_t ahead = 0;     // waiters before it
  std::string in_the_way{};  // a holder that blocks this contender
};
Verdict decide(const Directory&, std::string_view name, unsigned limit);

// Returns whether it holds, as far as names show. (For permits the data show it.)
bool runs(const Directory&, std::size_t at, unsigned limit);

}  // namespace dlock::zookeeper
