// SPDX-License-Identifier: Apache-2.0
// The children of a lock's directory: what their names say in each dialect, their order, and who may run. No I/O here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lease.hpp"

namespace dlock::zookeeper {

// How programs that share a directory name their nodes. A directory has one dialect: another one's nodes sort wrongly, so both would run.
enum class Dialect {
  sequential,  // `_c_<guid>-__WRIT__<n>`, `-__READ__<n>`: Curator's InterProcessReadWriteLock; `-__SEMA__<n>`: dlock's own, a permit
  curator,     // `_c_<guid>-lock-<n>`: Curator's InterProcessMutex, go-zookeeper
  kazoo,       // `<32 hex>__lock__<n>`: kazoo's Lock
};

std::optional<Dialect> dialect_of(std::string_view recipe) noexcept;  // nothing: no queue (ephemeral)

struct Member {
  std::string name;
  std::int32_t number = 0;  // the server's 32-bit counter, which wraps around
  Mode mode = Mode::exclusive;
};

// `a` was numbered before `b`: serial arithmetic, right across the wrap as long as fewer than 2^31 numbers lie between the two.
constexpr bool before(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b)) < 0;
}

// The part of a node's name that tells whose it is; by it a request is recognised whose reply was lost.
std::string guid_of(Dialect, const Owner&);
// The name to create, to which the server appends its number.
std::string node_prefix(Dialect, const Owner&, Mode);
// It ends as the server's numbers do, whoever asked for it.
bool looks_sequential(std::string_view name) noexcept;
std::optional<Member> parse_member(Dialect, std::string_view name);

// dlock's own helpers beside the queue (dialect sequential): who has which slot of a permit, and the lock-delay of a holder, which is there until
// a clean release.
std::string slot_node(unsigned slot);
std::optional<unsigned> parse_slot(std::string_view name);
std::string delay_node(Duration, std::string_view holder);
struct DelayMark {
  std::string name, holder;
  Duration delay{};
};
std::optional<DelayMark> parse_delay(std::string_view name);

// A directory as listed.
struct Directory {
  std::vector<Member> queue;  // in order
  std::vector<unsigned> slots;
  std::vector<DelayMark> delays;
  std::string foreign;  // the name of a node in another dialect; empty: none

  static Directory of(Dialect, const std::vector<std::string>& names);
  const Member* find(std::string_view name) const;
  std::vector<DelayMark> vanished() const;  // marks of holders that are gone without a release
};

// What a member may do, and what it has to watch otherwise.
struct Verdict {
  enum class What {
    run,
    missing,        // it is not in the directory
    wait_deletion,  // until `watch` is deleted
    wait_turn,      // until `watch` is deleted or its data change: a permit that is granted pokes the next one
    wait_room,      // first of those that find no permit: any change in the directory
  } what;
  std::string watch{};
  std::size_t ahead = 0;     // waiters before it
  std::string in_the_way{};  // one of the holders
};
Verdict decide(const Directory&, std::string_view name, unsigned limit);

// Holding as far as the names can tell: permits say it in their data.
bool runs(const Directory&, std::size_t at, unsigned limit);

}  // namespace dlock::zookeeper
