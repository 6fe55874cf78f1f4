// SPDX-License-Identifier: Apache-2.0
// The recipes with which dlock and other programs exclude each other. The lock has the name that
// those programs use, and is released by compare-and-delete. dlock keeps a record of its own about
// the holder. Waiters poll: other programs wake no waiter when they release, so only the remaining
// time of the lock says when to poll again. The recipes differ in how they take a free lock
// (named_backend_waiter.cpp), and in what the value of the lock says:
//
// set: `SET key owner NX PX ttl` and compare-and-delete, as redis-py, redsync, node-redlock and
// many others do on one server. The value is the owner in hex, so dlock recognises its own grant
// when a reply was lost. Only the grants of dlock have tokens.
//
// setnx-expire: SETNX, then EXPIRE. A crash between these two commands leaves a lock for ever.
// 1. A takes the lock (SETNX) and dies, so the lock has no expiry. If A was a dlock, the value is
//    `dlock1:<owner>:<ttl in ms>`, and any dlock that waits sets the expiry. The lock of another
//    program stays until an operator removes it, or until `?stale_after=` has passed.
// 2. A takes the lock and stalls. B sets the expiry of that lock, the lock expires, and B takes it.
//    Then A continues, and sets the expiry. If A is a dlock, it does that in a script that checks
//    the value first, because a bare EXPIRE could end B's lock before the time that B relies on. If
//    A is another program, its EXPIRE can end B's lock too early.
//
// getset: the value is the time at which the lock ends. A client writes it with SETNX. When that
// time has passed, a client takes the lock over with GETSET: the client that gets the old time back
// has the lock. dlock does both in one script, so it never overwrites a time that has not passed.
// The weaknesses of the algorithm:
// 1. The times are by the clients' clocks: a client whose clock is ahead takes the lock over from a
//    valid holder.
// 2. A and another program B see that the time has passed. A's GETSET returns the old time, so A
//    has the lock. B's GETSET returns A's time, so B does not have the lock, but B has overwritten
//    A's time. A finds a value that is not its own, and must consider its lock lost.
// 3. The value does not name its owner. If the owner is a dlock, the record beside the lock names
//    it. The server never deletes a lock of this recipe: after a crash, the last time stays until
//    another client takes the lock over.
#pragma once
#include "core/key.hpp"
#include "redis/redis_backend.hpp"

namespace dlock::redis {

// A lock under the name that other programs use, and the record that dlock keeps beside it:
// `dlock:fence:{<tag>}<lock>`. The tag is the part of the name that chooses the slot of a cluster,
// so one server has both.
struct NamedKey {
  std::string lock, fence;

  NamedKey(std::string_view prefix, const Key& key) : NamedKey(std::string{prefix} + key.text()) {}
  explicit NamedKey(std::string lock_name);

  // False: in a cluster, lock and record would have different slots, because the tag has a '}'.
  bool same_slot = true;

  // Returns the name of the lock that has this record. nullopt: `fence` is not a record of dlock.
  static std::optional<std::string> lock_of(std::string_view fence);
  static std::string fences_below(std::string_view prefix);  // pattern for SCAN
};

// The reply of script inspect.
struct NamedState {
  Micros now = 0;
  std::string type, value;
  std::optional<Duration> left;  // until the server deletes the lock; nullopt: it never does
  struct OwnRecord {
    FencingToken token = 0;
    std::string owner, value;
    Micros since = 0;
    Identity who;
  };
  std::optional<OwnRecord> record;
  std::string unknown_reason;  // as in KeyView

  static std::optional<NamedState> parse(const Reply&);  // nullopt: the reply is malformed
  bool held() const noexcept { return type != "none"; }
  // Returns whether a dlock holds the lock.
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

  // What the value of a lock says, which depends on the recipe. The waiter uses it, too.
  enum class Value {
    owner,   // recipe set: the owner
    marked,  // recipe setnx-expire: a text that begins with value_mark and the owner
    time,    // recipe getset: the time at which the lock ends; only the record names the owner
  };
  Value value() const noexcept { return value_; }
  // Returns the value of a lock of this owner. If the result ends in ':', it is only the beginning
  // of the value. Empty: only the record names the owner.
  std::string sign(const Owner&) const;
  // getset: returns the value of a lock that ends after `ttl` by our clock. The value is one unit
  // later, as the algorithm demands.
  std::string time_in(Duration ttl) const;
  std::string unit() const;
  NamedKey named(const Key& key) const { return {options().prefix, key}; }
  Result<NamedState> read_state(const NamedKey&);
  // Returns the time until the lock ends, if its value or the server says it.
  std::optional<Duration> left(const NamedState&) const;
  HolderView holder(const NamedState&) const;
  std::vector<std::string> notes(const NamedState&) const;
  struct Endless {
    std::string lock, value;
    Deadline since;
  };
  // setnx-expire: the foreign lock without an expiry that was seen last. `since`: when this value
  // of the lock was first seen.
  std::optional<Endless> endless;

 private:
  Result<TimedReply> call(std::string_view what, const Script&, const NamedKey&,
                          std::vector<std::string> args, std::size_t enough);
  std::optional<Micros> time_of(std::string_view value) const;  // nullopt: the value is not a time
  // `wanted`: the key that the caller named; the server may have lost it. null: the key was found
  // on the server.
  Result<std::optional<KeyView>> inspect(const NamedKey&, const Key* wanted);

  const Value value_;
};

// setnx-expire: the text before the owner in the lock's value.
inline constexpr std::string_view value_mark = "dlock1:";

}  // namespace dlock::redis
