// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` of a database, as a Backend. A request uses any session; a grant has a session of
// its own.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include "common/unanswered_releases.hpp"
#include "core/key.hpp"
#include "sql/sql_lease_table.hpp"
#include "store/key_view.hpp"

namespace dlock {

class SqlLeaseBackend final : public Backend {
 public:
  SqlLeaseBackend(const Traits& traits, std::unique_ptr<SqlClient> client,
                  std::unique_ptr<SqlLeaseTable> table)
      : client_(std::move(client)), table_(std::move(table)), traits_(traits) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_->options().where; }
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
  Result<Released> revoke(const Key&) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<std::vector<std::string>> names() override;
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override { return client_->examine(traits_); }
  Counters counters() const noexcept override { return {client_->exchanges(), wakeups_}; }

 private:
  friend class SqlLeaseWaiter;

  // A grant, and the session that has its locks: the end of the session wakes the next waiter.
  struct OwnGrant {
    std::unique_ptr<SqlSession> session;
    SqlWrittenRow written;
  };

  std::string name_of(const Key& key) const { return client_->options().prefix + store_name(key); }
  OwnGrant* grant_of(const Key&, const Owner&);
  bool holds_any(const Owner&) const noexcept;
  // `woken`: see SqlLeaseTable::release_locks().
  void forget_grant(const Key&, const Owner&, bool woken = false);
  // Runs `step` over the session of the grant, if there is one.
  template <class T, class Step>
  Result<T> run(OwnGrant*, const Step&);
  // Runs `step` over any session. Creates no table, because without a table there is no lock.
  template <class T, class Step>
  Result<T> run_if_there(const Step&);
  Result<SqlLeaseRow> read_row(const Key&);
  Result<Renewal> extend(const Lease&, Duration ttl, const std::string& ended);
  Result<std::optional<KeyView>> view_of(SqlSession&, const std::string& stored);

  const std::unique_ptr<SqlClient> client_;
  const std::unique_ptr<SqlLeaseTable> table_;
  const Traits& traits_;
  std::uint64_t wakeups_ = 0;
  std::map<std::pair<std::string, Owner>, OwnGrant> grants_;
  UnansweredReleases unanswered_;
};

std::unique_ptr<Waiter> sql_lease_waiter(SqlLeaseBackend&, const Request&);

}  // namespace dlock
