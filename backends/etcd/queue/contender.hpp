// SPDX-License-Identifier: Apache-2.0
// The contenders for a lock: each has a key below the lock's prefix, in order of creation. Reads
// their records, and decides which of them may hold. No I/O.
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
// `-` stands for nothing. GRANTED is by the store's clock. KEY is there only if the lock's name is
// a shortened key.
struct Record {
  Mode mode = Mode::exclusive;
  std::optional<unsigned> limit, slot;  // slot: that of the permit it holds
  Duration ttl{}, lock_delay{};
  std::int64_t granted = 0;  // 0: it waits, or its grant needed no further write
  bool revoked = false;
  std::string key;
  Identity who;

  static Record of(const Request&);
  std::string text() const;
  static std::optional<Record> parse(std::string_view);  // nullopt: it is another program's value
};

struct Contender {
  KeyValue kv;
  std::string name;  // the last part of its key; for a dlock it is the owner
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

// Returns whether no earlier contender excludes it and, for a permit, whether there is room.
bool may_run(const Contenders&, std::size_t at, unsigned limit);
// Returns whether it holds. A permit holds once its record has a slot.
bool holds(const Contenders&, std::size_t at);

// Whether a contender that comes after all of these may hold, and what it must watch otherwise.
struct Verdict {
  enum class What {
    run,
    wait_deletion,  // wait for `watch` to be deleted
    wait_turn,      // until `watch`, a waiting permit, gets its slot or is gone
    wait_room,      // the first permit without room: any deletion below the prefix
  } what;
  std::string watch{};
};
Verdict decide(const Contenders& before, Mode, unsigned limit);
unsigned lowest_free_slot(const Contenders&);

HolderView view_of(const Contender&, std::int64_t now);

}  // namespace dlock::etcd
