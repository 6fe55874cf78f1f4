// SPDX-License-Identifier: Apache-2.0
// What the recipes that exclude with other programs have in common: a lock under the name those use (named_key.hpp), compare-and-delete, dlock's own record
// of who holds it, and waiting by asking again. The other programs tell nobody when they release, so there is nothing to sleep on but their
// remaining time. How a free lock is taken is what tells the recipes apart.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include "core/backend.hpp"
#include "redis/client.hpp"
#include "redis/named_key.hpp"

namespace dlock::redis {

// What named/look.lua saw.
struct Look {
  Micros now = 0;
  std::string type, value;
  std::optional<Duration> left;  // until the server deletes it; none: it never does
  struct Record {
    FencingToken token = 0;
    std::string owner, value;
    Micros since = 0;
    Identity who;
  };
  std::optional<Record> record;

  bool held() const noexcept { return type != "none"; }
  bool ours() const noexcept { return held() && record && record->value == value; }  // by some dlock
};

// One try to take a lock.
struct Try {
  std::optional<Lease> lease;        // taken
  std::optional<HolderView> holder;  // not taken: by whom it is held
  std::optional<Duration> free_in;   // and when it ends by itself
  std::string why;
};

class NamedBackend : public Backend {
 public:
  NamedBackend(const Traits& traits, std::unique_ptr<Client> client) : client_(std::move(client)), traits_(traits) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_->options().where; }
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease& lease, Duration ttl) override { return renew(lease, ttl); }
  Result<Released> release(const Lease&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, FencingToken) override;
  Result<Validity> check(const Key&, const Owner&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<KeyView>> list() override;
  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_->requests, 0}; }

  // Takes the lock if it is free. The request is one that enqueue has accepted; repeating it is harmless.
  virtual Result<Try> try_once(const Request&) = 0;
  Client& client() noexcept { return *client_; }

 protected:
  // What the value of this owner is, or begins with if it ends in ':'; empty: only the record knows.
  virtual std::string sign(const Owner&) const = 0;
  // Arguments of named/release.lua.
  virtual std::vector<std::string> release_words(const Owner& owner) const { return {owner.hex(), sign(owner)}; }
  // When it ends, as far as its value tells more than the server.
  virtual std::optional<Duration> left(const Look& look) const { return look.left; }

  Error not_understood(std::string_view what) const;
  NamedKey named(const Key& key) const { return {client_->options().prefix, key}; }
  Result<Answer> call(std::string_view what, const Script&, const NamedKey&, std::vector<std::string> args, unsigned copies = 0);
  Result<Look> look(const NamedKey&);
  static std::optional<Look> parse_look(const Reply&);
  Try busy(const Look&) const;
  Try in_grace(const Answer&) const;
  std::vector<std::string> notes(const Look&) const;
  // The reply {'kept', token} or {'lost'} of a renewal.
  Result<Renewal> renewed(const Result<Answer>&, const Lease&, Duration ttl);
  // The lease of {'granted', token}, if as many replicas as asked for have it; else it is given back.
  Result<Try> granted(const Request&, const Answer&, Deadline sent);

  // A grant of an earlier request with the same owner: it counts from a renewal now.
  Result<Try> taken_before(const Request&);

  std::unique_ptr<Client> client_;

 private:
  Result<std::optional<KeyView>> inspect(const NamedKey&);
  Result<void> names_at(const Endpoint&, const std::string& pattern, std::vector<std::string>& names);

  const Traits& traits_;  // of the table, which lives for ever
  std::optional<Owner> release_unanswered_;
};

}  // namespace dlock::redis
