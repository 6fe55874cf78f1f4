// SPDX-License-Identifier: Apache-2.0
// Each contender for a lock has a key below the lock's prefix. The contenders queue in the order in
// which their keys were created. These functions read the contenders' records, and decide which
// contenders may hold the lock. No I/O.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lease.hpp"
#include "etcd/client/api.hpp"
#include "store/key_view.hpp"

namespace dlock::etcd {

// The value of a contender's key, one line:
//   dlock1 MODE LIMIT SLOT TTL_US DELAY_US GRANTED_US REVOKED KEY IDENTITY
// `-` means that a field is empty. GRANTED is the time of the grant, by the store's clock. KEY is
// empty unless the lock's name is a shortened key.
struct Record {
  Mode mode = Mode::exclusive;
  std::optional<unsigned> limit, slot;  // slot: of the permit that the contender holds
  Duration ttl{}, lock_delay{};
  std::int64_t granted = 0;  // 0: the contender waits, or its grant did not write the record
  bool revoked = false;
  std::string key;
  Identity who;

  static Record of(const Request&);
  std::string text() const;
  static std::optional<Record> parse(std::string_view);  // nullopt: another program's value
};

struct Contender {
  KeyValue kv;
  std::string name;  // the last part of the key; dlock writes the owner there
  std::optional<Record> record;

  Mode mode() const noexcept { return record ? record->mode : Mode::exclusive; }
  Duration lock_delay() const noexcept { return record ? record->lock_delay : Duration{}; }
  bool has_slot() const noexcept { return record && record->slot; }
  FencingToken token() const noexcept { return static_cast<FencingToken>(kv.created); }
};
using Contenders = std::vector<Contender>;

// Returns the contenders directly below the prefix, in order. A key further down belongs to a lock
// whose name begins with this lock's name.
Contenders contenders(const KeyValues&, std::string_view prefix);

// Returns whether contender `at` may hold the lock: no earlier contender excludes it and, if it
// wants a permit, fewer than `limit` contenders are before it.
bool may_run(const Contenders&, std::size_t at, unsigned limit);
// Returns whether contender `at` holds the lock. It holds a permit once its record has a slot.
bool holds(const Contenders&, std::size_t at);

// The result of decide() for a contender that comes after all contenders in `before`: `run` if it
// may hold the lock, and otherwise what it must wait for.
struct Verdict {
  enum class What {
    run,
    wait_deletion,  // wait until the key `watch` is deleted
    wait_turn,      // wait until `watch`, another waiter for a permit, gets a slot or is deleted
    wait_room,      // we are next, but no permit is free: wait for a deletion below the prefix
  } what;
  std::string watch{};
};
Verdict decide(const Contenders& before, Mode, unsigned limit);
unsigned lowest_free_slot(const Contenders&);

HolderView view_of(const Contender&, std::int64_t now);

}  // namespace dlock::etcd
