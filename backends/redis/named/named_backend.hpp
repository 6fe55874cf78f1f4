// SPDX-License-Identifier: Apache-2.0
// Recipes that exclude with other programs: a lock under their name, compare-and-delete, dlock's
// own record of its holder, and waiting by polling. The other programs wake no waiter when they
// release, so there is nothing to sleep on but their remaining time. The recipes differ in how a
// free lock is taken (named_backend_waiter.cpp), and in what its value says:
//
// set: `SET key owner NX PX ttl`, and compare-and-delete: as redis-py, redsync, node-redlock and
// many others do on one server. The value is the owner in hex, so a request of ours whose reply was
// lost is recognised. Tokens order the grants of dlock; other clients have none.
//
// setnx-expire: SETNX, then EXPIRE: two commands, and a crash between them leaves a lock for ever.
// 1. A takes the lock (SETNX) and dies. The lock has no end. The value of a dlock is
//    `dlock1:<owner>:<ttl in ms>`: any other dlock that waits sets the end of such a lock. A
//    foreign one stays until an operator removes it, or for `?stale_after=`.
// 2. A takes the lock and stalls; B sets its end, it ends, B takes it; A sets the end. So A does
//    that in a script that checks the value first: a bare EXPIRE could end B's lock before the time
//    that B relies on. The other programs' EXPIRE can.
//
// getset: SETNX of the time at which the lock ends; when that has passed, takeover by GETSET: the
// client that gets the old time back has it. A dlock does both in one script, so it never
// overwrites a time that has not passed. The weaknesses of the algorithm:
// 1. The times are the clients': a client whose clock is ahead takes over from a valid holder.
// 2. A and B see the time passed. A's GETSET returns the old one: A has the lock. B's GETSET
//    returns A's: B has lost, and has overwritten A's time with its own. If B is another program, A
//    finds a value that is not its own and must consider its lock lost.
// 3. The value does not name its owner. dlock's record beside it does, for dlocks.
// The server never deletes such a lock: after a crash the last time stays until another takes over.
#pragma once
#include "core/key.hpp"
#include "redis/redis_backend.hpp"

namespace dlock::redis {

// A lock under the name that other programs use, and the record that dlock keeps beside it:
// `dlock:fence:{<tag>}<lock>`, where the tag is the part of the name that chooses the slot of a
// cluster, so that both are on one server.
struct NamedKey {
  std::string lock, fence;

  NamedKey(std::string_view prefix, const Key& key) : NamedKey(std::string{prefix} + key.text()) {}
  explicit NamedKey(std::string lock_name);

  // false: the name has a '}' that no '{' precedes; such a lock cannot be in a cluster
  bool same_slot = true;

  static std::optional<std::string> lock_of(std::string_view fence);  // nothing: not such a record
  static std::string fences_below(std::string_view prefix);           // pattern for SCAN
};

// The result of script inspect.
struct NamedState {
  Micros now = 0;
  std::string type, value;
  std::optional<Duration> left;  // until the server deletes it; none: never
  struct OwnRecord {
    FencingToken token = 0;
    std::string owner, value;
    Micros since = 0;
    Identity who;
  };
  std::optional<OwnRecord> record;
  std::string unread;  // as KeyView has it

  static std::optional<NamedState> parse(const Reply&);  // nothing: malformed
  bool held() const noexcept { return type != "none"; }
  // by some dlock
  bool ours() const noexcept { return held() && record && record->value == value; }
};

class NamedBackend final : public RedisBackend {
 public:
  NamedBackend(const Traits&, std::unique_ptr<Client>);

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease& lease, Duration ttl, std::optional<RunEnd>) override {
    return renew(lease, ttl);
  }
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    return inspect(named(key), &key);
  }
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override {
    return inspect(NamedKey{options().prefix + name}, nullptr);
  }
  Result<void> erase(const Key& key) override {
    const NamedKey at = named(key);
    return remove(at.lock, at.lock, at.fence);
  }

  // For the waiter.
  // What the value of a lock says.
  enum class Value {
    owner,   // of set: the owner
    marked,  // of setnx-expire: begins with the owner
    time,    // of getset: when it ends; only the record has the owner
  };
  Value value() const noexcept { return value_; }
  // The value of this owner, or its beginning if it ends in ':'; empty: only the record has the
  // owner.
  std::string sign(const Owner&) const;
  // When a lock of getset ends, by our clock, plus one unit, as the algorithm demands.
  std::string time_in(Duration ttl) const;
  std::string unit() const;
  NamedKey named(const Key& key) const { return {options().prefix, key}; }
  Result<NamedState> read_state(const NamedKey&);
  std::optional<Duration> left(const NamedState&) const;  // until it ends; its value may tell more
  HolderView holder(const NamedState&) const;
  std::vector<std::string> notes(const NamedState&) const;
  struct Endless {
    std::string lock, value;
    Deadline since;
  };
  std::optional<Endless> endless;  // setnx-expire: the last foreign lock seen without an end

 private:
  Result<Answer> call(std::string_view what, const Script&, const NamedKey&,
                      std::vector<std::string> args, std::size_t enough);
  std::optional<Micros> time_of(std::string_view value) const;  // nothing: not a time
  // `wanted`: the key that a caller names, which the server may have forgotten; none: found there
  Result<std::optional<KeyView>> inspect(const NamedKey&, const Key* wanted);

  const Value value_;
};

// Before the owner in the value of a lock of setnx-expire.
inline constexpr std::string_view value_mark = "dlock1:";

}  // namespace dlock::redis
