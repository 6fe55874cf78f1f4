// SPDX-License-Identifier: Apache-2.0
// Shared by the recipes that exclude with other programs: a lock under their name (named_key.hpp),
// compare-and-delete, dlock's own record of its holder, and waiting by polling. The other programs
// wake no waiter when they release, so there is nothing to sleep on but their remaining time. The
// recipes differ in how a free lock is taken.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include "common/unanswered_releases.hpp"
#include "redis/named/named_key.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

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

class NamedBackend : public Backend {
 public:
  NamedBackend(const Traits& traits, std::unique_ptr<Client> client)
      : client_(std::move(client)), traits_(traits) {}

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
  Result<std::vector<Finding>> doctor() override;
  Result<std::string> after_restart(const Request& r) const override {
    return restart_rule({r.ttl, r.lock_delay}, client_->options().restart_grace);
  }
  Health health() override { return client_->health(); }
  Counters counters() const noexcept override { return {client_->requests, 0}; }

  // Takes the lock if it is free. enqueue has accepted the request; it may be repeated.
  virtual Result<Try> try_once(const Request&) = 0;
  Client& client() noexcept { return *client_; }
  // Releases what must not be used. False: not answered, so it is still owed.
  bool give_back(const Lease&);

 protected:
  // The value of this owner, or its beginning if it ends in ':'; empty: only the record has the
  // owner.
  virtual std::string sign(const Owner&) const = 0;
  // Arguments of named/release.lua.
  virtual std::vector<std::string> release_words(const Owner& owner) const {
    return {owner.hex(), sign(owner)};
  }
  // Its end, if its value tells more than the server.
  virtual std::optional<Duration> left(const Look& look) const { return look.left; }

  Error not_understood(std::string_view what) const;
  NamedKey named(const Key& key) const { return {client_->options().prefix, key}; }
  Result<Answer> call(std::string_view what, const Script&, const NamedKey&,
                      std::vector<std::string> args, unsigned copies = 0, std::size_t enough = 0);
  // Errc::usage: renewed for so long it could outlast the grace.
  Result<void> may_extend(Duration ttl) const {
    return client_->gave_any() ? Result<void>{}
                               : within_grace({ttl}, client_->options().restart_grace);
  }
  Result<Look> look(const NamedKey&);
  static std::optional<Look> parse_look(const Reply&);
  Try busy(const Look&) const;
  Try in_grace(const Answer&) const;
  std::vector<std::string> notes(const Look&) const;
  // The reply {'kept', token} or {'lost'} of a renewal.
  Result<Renewal> renewed(const Result<Answer>&, const Lease&, Duration ttl);
  // The reply {'granted', token}, {'held'} or {'busy', look} to a script that takes a free lock.
  Result<Try> tried(const Request&, const Answer&, Deadline sent);
  // The lease of {'granted', token}, if enough replicas have it; else it is released (Try::undone).
  Result<Try> granted(const Request&, const Answer&, Deadline sent);

  // A grant of an earlier request with the same owner: it counts from a renewal now.
  Result<Try> taken_before(const Request&);

  std::unique_ptr<Client> client_;

 private:
  // `asked`: the key that a caller names, which the server may have forgotten; none: found there
  Result<std::optional<KeyView>> inspect(const NamedKey&, const Key* asked);

  const Traits& traits_;  // of the table, which lives for ever
  UnansweredReleases unanswered_;
};

}  // namespace dlock::redis
