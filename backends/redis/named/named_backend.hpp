// SPDX-License-Identifier: Apache-2.0
// Recipes that exclude with other programs: a lock under their name, compare-and-delete, dlock's
// own record of its holder, and waiting by polling. The other programs wake no waiter when they
// release, so there is nothing to sleep on but their remaining time. The recipes differ in how a
// free lock is taken (named_take.cpp), and in what its value says:
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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "common/unanswered_releases.hpp"
#include "core/key.hpp"
#include "redis/wire/client.hpp"

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

// The result of named/look.lua.
struct Look {
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

  static std::optional<Look> parse(const Reply&);  // nothing: malformed
  bool held() const noexcept { return type != "none"; }
  // by some dlock
  bool ours() const noexcept { return held() && record && record->value == value; }
};

// One try to take a lock.
struct Try {
  std::optional<Lease> lease;        // taken
  std::optional<HolderView> holder;  // not taken: its holder
  std::optional<Duration> free_in;   // and when it ends by itself
  std::string why;
  struct Undone {
    Lease lease;
    Error because;
    bool answered;
  };
  // taken, and released: nothing more may be acquired under this owner
  std::optional<Undone> undone;
  bool no_grants = false;  // the server grants nothing at the moment
};

class NamedBackend;

// Before the owner in the value of a lock of setnx-expire.
inline constexpr std::string_view value_mark = "dlock1:";

// What sets a recipe apart.
struct NamedRecipe {
  std::string_view name;
  Result<Try> (NamedBackend::*take)(const Request&);
  enum class Value {
    owner,   // the owner
    marked,  // begins with the owner
    time,    // when it ends: only the record has the owner
  } value;
};

class NamedBackend final : public Backend {
 public:
  NamedBackend(const Traits&, std::unique_ptr<Client>);

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_->options().where; }
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease& lease, Duration ttl, std::optional<RunEnd>) override {
    return renew(lease, ttl);
  }
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override;
  Result<std::string> after_restart(const Request& r) const override {
    return restart_rule({r.ttl, r.lock_delay}, client_->options().restart_grace);
  }
  Health health() override { return client_->health(); }
  Counters counters() const noexcept override { return {client_->requests, 0}; }

  // Takes the lock if it is free. enqueue has accepted the request; it may be repeated.
  Result<Try> try_once(const Request& request) { return (this->*recipe_.take)(request); }
  Client& client() noexcept { return *client_; }
  // Releases what must not be used. False: not answered, so it is still owed.
  bool give_back(const Lease&);

  // The ways of taking.
  Result<Try> take_by_set(const Request&);
  Result<Try> take_by_setnx(const Request&);
  Result<Try> take_by_getset(const Request&);

 private:
  // The value of this owner, or its beginning if it ends in ':'; empty: only the record has the
  // owner.
  std::string sign(const Owner&) const;
  // When a lock of getset ends, by our clock, plus one unit, as the algorithm demands.
  std::string time_in(Duration ttl) const;
  std::optional<Micros> time_of(std::string_view value) const;  // nothing: not a time
  std::string unit() const;
  std::optional<Duration> left(const Look&) const;  // until it ends; its value may tell more

  NamedKey named(const Key& key) const { return {client_->options().prefix, key}; }
  Result<Answer> call(std::string_view what, const Script&, const NamedKey&,
                      std::vector<std::string> args, unsigned copies = 0, std::size_t enough = 0);
  // Asks for a free lock, and understands {'granted', token}, {'held'} or {'busy', look}.
  Result<Try> take(const Script&, const Request&, std::vector<std::string> args);
  Result<Try> complete(const Request&, const NamedKey&, const std::string& value);
  Result<Try> mend(const NamedKey&, const Look&);
  // The lease of {'granted', token}, if enough replicas have it; else it is released (Try::undone).
  Result<Try> granted(const Request&, const Answer&, Deadline sent);
  // A grant of an earlier request with the same owner: it counts from a renewal now.
  Result<Try> taken_before(const Request&);
  Result<Look> look(const NamedKey&);
  Try busy(const Look&) const;
  Try in_grace(const Answer&) const;
  std::vector<std::string> notes(const Look&) const;
  // `asked`: the key that a caller names, which the server may have forgotten; none: found there
  Result<std::optional<KeyView>> inspect(const NamedKey&, const Key* asked);

  const Traits& traits_;  // of the table, which lives for ever
  std::unique_ptr<Client> client_;
  const NamedRecipe& recipe_;
  UnansweredReleases unanswered_;
  struct Endless {
    std::string lock, value;
    Deadline since;
  };
  std::optional<Endless> endless_;  // setnx-expire: the last foreign lock seen without an end
};

}  // namespace dlock::redis
