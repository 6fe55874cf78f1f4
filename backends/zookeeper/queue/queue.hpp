// SPDX-License-Identifier: Apache-2.0
// The children of a lock's directory: the meaning of their names in each dialect, their order, and
// which may run. No I/O here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lease.hpp"

namespace dlock::zookeeper {

// The node names of programs that share a directory. A directory has one dialect: another one's
// nodes sort wrongly, so both would run.
enum class Dialect {
  // `_c_<guid>-__WRIT__<n>`, `-__READ__<n>`: Curator's InterProcessReadWriteLock. dlock's own:
  // `-__SEMA__-__WRIT__<n>`, a permit, which Curator takes for a writer, so that it waits for it;
  // `-__DLCK__-__READ__<n>`, a reader, which may run beside permits, as no reader of Curator may
  sequential,
  curator,  // `_c_<guid>-lock-<n>`: Curator's InterProcessMutex, go-zookeeper
  kazoo,    // `<32 hex>__lock__<n>`: kazoo's Lock
};

// nothing: no queue (ephemeral)
std::optional<Dialect> dialect_of(std::string_view recipe) noexcept;

struct Member {
  std::string name;
  std::int32_t number = 0;  // the server's 32-bit counter, which wraps around
  Mode mode = Mode::exclusive;
  bool foreign = false;  // a reader of another program, which takes a permit for a writer
};

// `a` was numbered before `b`: serial arithmetic, right across the wrap as long as fewer than 2^31
// numbers lie between the two.
constexpr bool before(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b)) <
         0;
}

// The part of a node's name that identifies its owner; it recognises a request whose reply was
// lost.
std::string guid_of(Dialect, const Owner&);
// The name to create, to which the server appends its number.
std::string node_prefix(Dialect, const Owner&, Mode);
// It ends as the server's numbers do, from any program.
bool is_sequential(std::string_view name) noexcept;
std::optional<Member> parse_member(Dialect, std::string_view name);

// dlock's own helper nodes beside the queue (dialect sequential): the owner of each slot of a
// permit. It does not end in a tag or a number, by which other programs sort, so these never wait
// for one.
std::string slot_node(unsigned slot);
std::optional<unsigned> parse_slot(std::string_view name);

// The node with the last start that --once-per noted.
inline constexpr std::string_view start_node = "started";
// A node that lives for a moment: only the reply to a write has the time of the leader's clock.
std::string clock_node();
// dlock's, but no place in the queue.
bool is_helper_node(Dialect, std::string_view name);

// A directory as listed.
struct Directory {
  std::vector<Member> queue;  // in order
  std::vector<unsigned> slots;
  std::string foreign;  // the name of a node in another dialect; empty: none

  static Directory of(Dialect, const std::vector<std::string>& names);
  const Member* find(std::string_view name) const;
};

// Whether a member may run, and what it has to watch otherwise.
struct Verdict {
  enum class What {
    run,
    missing,        // it is not in the directory
    wait_deletion,  // until `watch` is deleted
    // until `watch` is deleted or its data change: a permit that is granted pokes the next one
    wait_turn,
    wait_room,  // the first without a permit: any change in the directory
  } what;
  std::string watch{};
  std::size_t ahead = 0;     // waiters before it
  std::string in_the_way{};  // one of the holders
};
Verdict decide(const Directory&, std::string_view name, unsigned limit);

// Holding as far as the names show: permits have it in their data.
bool runs(const Directory&, std::size_t at, unsigned limit);

}  // namespace dlock::zookeeper
