// SPDX-License-Identifier: Apache-2.0
// Those that want a lock: one key each below the lock's prefix, in order of creation. What their
// records say, and which of them may run. No I/O here.
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
// `-` where there is nothing. GRANTED is on the store's clock. KEY is there if the lock's name is a
// shortened one.
struct Record {
  Mode mode = Mode::exclusive;
  std::optional<unsigned> limit, slot;  // slot: it holds this permit
  Duration ttl{}, lock_delay{};
  std::int64_t granted = 0;  // 0: it may wait, or was granted without a write
  bool revoked = false;
  std::string key;
  Identity who;

  static Record of(const Request&);
  std::string text() const;
  static std::optional<Record> parse(std::string_view);  // nullopt: not dlock's
};

struct Contender {
  KeyValue kv;
  std::string name;  // the last part of its key: of dlock's, the owner
  std::optional<Record> record;

  Mode mode() const noexcept { return record ? record->mode : Mode::exclusive; }
  Duration lock_delay() const noexcept { return record ? record->lock_delay : Duration{}; }
  bool has_slot() const noexcept { return record && record->slot; }
  FencingToken token() const noexcept { return static_cast<FencingToken>(kv.created); }
};
using Contenders = std::vector<Contender>;

// Those directly below the prefix, in order: a key further down belongs to a lock whose name
// begins like this one's.
Contenders contenders(const KeyValues&, std::string_view prefix);

// Nobody that came before excludes it; for a permit there is room, too.
bool may_run(const Contenders&, std::size_t at, unsigned limit);
// It holds. A permit does once its record has a slot.
bool holds(const Contenders&, std::size_t at);

// Whether one that comes after all of these may run, and what it has to watch otherwise.
struct Verdict {
  enum class What {
    run,
    wait_deletion,  // of `watch`
    wait_turn,      // until `watch`, a waiting permit, gets its slot or is gone
    wait_room,      // the first permit without room: any deletion below the prefix
  } what;
  std::string watch{};
};
Verdict decide(const Contenders& before, Mode, unsigned limit);
unsigned lowest_free_slot(const Contenders&);

HolderView view_of(const Contender&, std::int64_t now);

}  // namespace dlock::etcd
