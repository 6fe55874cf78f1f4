// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock is a row with an end time: insert and version. A release wakes no waiter, so
// waiters poll.
#pragma once
#include "common/unanswered_releases.hpp"
#include "mysql/foreign/named_backend.hpp"

namespace dlock::mysql {

class RowBackend : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease& lease, Duration ttl, std::optional<RunEnd>) override {
    return renew(lease, ttl);
  }
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;

  struct Try {
    std::optional<FencingToken> token;  // set if the lock was taken
    Deadline sent{};  // when we sent the request that took the lock, or a little earlier
    LockRow found;    // if the lock was not taken: the record of its holder
  };
  // Takes the lock if it is free. The call may be repeated.
  Result<Try> try_once(const Request&);

 protected:
  friend class RowWaiter;
  virtual Result<Try> try_over(Connection&, const std::string& name, const Request&,
                               Deadline until) = 0;
  // Makes the lease end at now + ttl, and returns its token; nullopt: the lease is lost.
  virtual Result<std::optional<FencingToken>> renew_over(Connection&, const std::string&,
                                                         const Owner&, Duration ttl, Deadline) = 0;
  virtual Result<bool> release_over(Connection&, const std::string&, const Owner&, Deadline) = 0;

 private:
  UnansweredReleases unanswered_;
};

}  // namespace dlock::mysql
