// SPDX-License-Identifier: Apache-2.0
// The base of database recipes that share their locks with other programs. The lock has the name
// that the other programs use. Beside the lock, dlock has its own record, a row with the holder and
// the newest token. The record decides only the next token; the lock decides who holds.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/lock_state.hpp"
#include "store/backend.hpp"

namespace dlock {

// A lock of such a recipe and dlock's record of it, as they were read from the database.
struct LockRecord {
  bool exists = false;
  FencingToken fence = 0;
  std::string owner;  // hex; empty: released
  Micros granted = 0, now = 0;
  Micros left = 0;  // the time until the lease in the record ends
  Identity who;
  bool ours = false;                 // some dlock holds the lock, and the record is in force
  bool held = false;                 // dlock or another program holds the lock
  bool ending = false;               // a dlock's lease is over, but not by every node's clock
  std::string_view stays_because{};  // as in HolderView

  bool is(const GrantId& id) const {
    const auto* of = std::get_if<Owner>(&id);
    return ours && (of ? owner == of->hex() : fence == std::get<FencingToken>(id));
  }
  std::optional<HolderView> holder() const {
    if (!held) return std::nullopt;
    HolderView h;
    h.stays_because = stays_because;
    if (!ours) return h;
    h.id = owner.substr(0, 8);
    h.token = fence;
    h.who = who;
    h.remaining = Duration{std::max<Micros>(0, left)};
    h.granted_at = time_of_grant(granted, now);
    return h;
  }
  std::string why() const {
    return ending          ? "its time is over; on Galera it ends ?clock_skew= later"
           : held && !ours ? "held by another program"
                           : "";
  }
};

// `Sessions`: a SqlClient.
template <class Sessions>
class SqlRecordBackend : public Backend {
 public:
  template <class Options>
  SqlRecordBackend(const Traits& traits, Options options, std::string_view schema)
      : client_(std::move(options), schema), traits_(traits) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_.options().where; }
  Result<Validity> check(const Key& key, const GrantId& id) override {
    TRY(found, read_record(key));
    return found.is(id) ? Validity::valid : Validity::stale;
  }
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    TRY(found, read_record(key));
    if (!found.exists && !found.held) return std::nullopt;
    KeyView v;
    v.key = key.text();
    v.fence = found.fence;
    v.waiters_known = false;
    if (auto holder = found.holder()) v.holders.push_back(std::move(*holder));
    if (auto why = found.why(); !why.empty()) v.notes.push_back(std::move(why));
    return v;
  }
  Result<std::vector<Finding>> doctor() override { return client_.examine(traits_); }
  Counters counters() const noexcept override { return {client_.exchanges(), wakeups_}; }

 protected:
  using Connection = typename Sessions::Connection;

  virtual Result<LockRecord> read_record(Connection&, const Key&, Deadline until) = 0;
  Result<LockRecord> read_record(const Key& key) {
    const Deadline until = client_.usual_deadline();
    return client_.template run<LockRecord>(
        until, false, [&](Connection& c) { return read_record(c, key, until); });
  }

  Sessions client_;
  const Traits& traits_;
  std::uint64_t wakeups_ = 0;
};

}  // namespace dlock
