// SPDX-License-Identifier: Apache-2.0
// Recipe lease. How it works, and its assumptions: lease_table.hpp and README.md.
#pragma once
#include <map>
#include <memory>
#include "common/unanswered_releases.hpp"
#include "core/backend.hpp"
#include "postgresql/client/client.hpp"
#include "postgresql/lease/lease_table.hpp"
#include "postgresql_schema/schema.hpp"

namespace dlock::postgresql {

class LeaseBackend final : public Backend {
 public:
  LeaseBackend(const Traits& traits, Options options)
      : client_(std::move(options), schema::lease), traits_(traits) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_.options().where; }
  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease& lease, Duration ttl) override {
    return extend(lease, ttl, "");
  }
  Result<Renewal> detach(const Lease& lease, Duration ttl, std::optional<RunEnd> end) override {
    return extend(lease, ttl, end ? end->text() : "");
  }
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<Released> revoke(const Key&) override;
  Result<Starts> starts(const Key&) override;
  Result<Noted> note_start(const Lease&, const StartChange&) override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_.exchanges(), wakeups_}; }
  std::uint64_t conflicts() const noexcept { return table_.conflicts(); }

 private:
  friend class LeaseWaiter;

  // A grant, with the session that has its ticket, so that its end wakes the next one.
  struct OwnGrant {
    std::unique_ptr<Connection> connection;
    LeaseTable::Known known;
  };

  Result<Renewal> extend(const Lease&, Duration ttl, const std::string& ended);
  std::string name_of(const Key& key) const { return client_.options().prefix + store_name(key); }
  template <class T>
  Result<T> run(OwnGrant*, const std::function<Result<T>(Connection&)>&);
  // Over any session, without making a table: a missing one is a T{}.
  template <class T>
  Result<T> ask(const std::function<Result<T>(Connection&)>&);
  // The way there decides how waiters wake, and never which owner may hold the lock.
  void adapt(const Connection& c) { table_.set_wakes(!c.facts().proxied); }
  OwnGrant* held(const Key&, const Owner&);
  void let_go(const Key&, const Owner&, bool rung = false);
  Result<KeyView> view_of(Connection&, const std::string& stored, const LeaseTable::Seen&);
  Result<LeaseTable::Seen> look(const Key&);

  Client client_;
  LeaseTable table_{LeaseTable::Setup{}};
  const Traits& traits_;
  std::map<std::pair<std::string, Owner>, OwnGrant> held_;
  std::uint64_t wakeups_ = 0;
  UnansweredReleases unanswered_;
};

}  // namespace dlock::postgresql
