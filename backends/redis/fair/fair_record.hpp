// SPDX-License-Identifier: Apache-2.0
// What recipe `fair` keeps in the store: the names of its keys, and its records in the form in
// which the scripts of fair/ return them.
#pragma once
#include "core/lock_state.hpp"
#include "core/text.hpp"
#include "redis/wire/reply.hpp"
#include "store/backend.hpp"

namespace dlock::redis {

// The names in the store for one key of dlock: `<prefix>{<name>}:fence` (the lock itself), `:queue`
// and `:wake:<owner>`. The part in braces chooses the slot of a cluster, so one server has all of
// them.
class FairKeys {
 public:
  FairKeys(std::string_view prefix, const Key& key) : FairKeys(prefix, store_name(key)) {
    if (!key_from_store_name(name_)) record_suffix_ = " " + percent_encode(key.text());
  }
  FairKeys(std::string_view prefix, std::string name);  // from a name found in the store

  // The lock's key is named after `fence`, the field that stays when there are no holders.
  std::string lock() const { return base_ + "fence"; }
  std::string queue() const { return base_ + "queue"; }
  // in the order in which the scripts get them in KEYS
  std::vector<std::string> all() const { return {lock(), queue()}; }
  std::string wake(const Owner& owner) const { return base_ + "wake:" + owner.hex(); }
  std::string slot() const { return base_; }  // chooses the server in a cluster
  const std::string& name() const noexcept { return name_; }
  // a space and the full key, if the name is a shortened key; otherwise empty
  const std::string& record_suffix() const noexcept { return record_suffix_; }

  // `found`: a key of the store that matches pattern(). Returns the part of it that is the name()
  // of a key of dlock. nullopt: `found` is another program's.
  static std::optional<std::string> name_in(std::string_view found, std::string_view prefix);
  static std::string pattern(std::string_view prefix);  // for SCAN
  // Returns the full key of dlock for this name. `fence_record`: the value of field `fence`, which
  // ends with record_suffix(). If the full key is unknown, returns the name.
  static std::string key_text(const std::string& name, std::string_view fence_record);

 private:
  std::string name_, base_, record_suffix_;
};

// Holders and waiters as the scripts return them. `id`: the first digits of the owner; the scripts
// do not return the others. nullopt from the parsers: the record is malformed.
struct HolderRecord : LockState::Holder {
  std::string id;
  Micros granted = 0;
};
struct WaiterRecord : LockState::Waiter {
  std::string id;
};
// token|id|deadline|since|mode|slot|delay|granted|meta
std::optional<HolderRecord> parse_holder(std::string_view record);
std::optional<WaiterRecord> parse_waiter(std::string_view record);  // id|mode|limit|meta

HolderView view_of(const HolderRecord&, Micros now);

// At most this many holders of a key are shown, and at most this many waiters.
inline constexpr std::size_t most_shown = 1000;

// Makes a view from the reply of script inspect. nullopt: there is no such key.
Result<std::optional<KeyView>> view_of(const FairKeys&, const Reply&);

}  // namespace dlock::redis
