// SPDX-License-Identifier: Apache-2.0
// What the recipes of Redis share.
#pragma once
#include "common/unanswered_releases.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

class RedisBackend : public Backend {
 public:
  RedisBackend(const Traits& traits, std::unique_ptr<Client> client)
      : traits_(traits), client_(std::move(client)) {}

  const Traits& traits() const noexcept final { return traits_; }
  std::string where() const final { return options().where; }
  Result<std::vector<Finding>> doctor() final;
  Result<std::string> after_restart(const Request& r) const final {
    return restart_rule({r.ttl, r.lock_delay}, options().restart_grace);
  }
  Health health() final { return client_->health(); }
  Counters counters() const noexcept final { return {client_->requests, wakeups}; }

  Client& client() noexcept { return *client_; }
  std::uint64_t wakeups = 0;
  // Whether this Backend has granted a lease. If so, renewals skip within_grace(), whose error must
  // never end a held lease.
  bool has_granted = false;

  // Releases the grant of a waiter, because too few replicas have it. The release stays in `owed`
  // until a reply to it comes. The release may arrive late. So undo() puts another owner into the
  // Request, and nothing more is acquired under the old owner. Returns the error for the acquire.
  Error undo(const Lease&, std::int64_t copies, Request&, std::optional<Lease>& owed);
  // Repeats the release that is owed. Errc::unavailable: it is still owed.
  Result<void> settle(std::optional<Lease>& owed);

 protected:
  const Options& options() const noexcept { return client_->options(); }
  // Returns the result of a release, from the number of grants that it removed.
  Result<Released> released(const Lease&, const Result<TimedReply>&);
  Result<Released> force_released(const TimedReply&) const;
  // Call it if a release has found no holder. Returns Released::was_not_held; Errc::unavailable if
  // the server may have lost the holder.
  Result<Released> none_found(std::string_view what, const TimedReply&) const;
  // Fails with code `otherwise` if fewer replicas have confirmed the change than ?replicas=
  // demands.
  Result<void> confirmed(std::string_view what, const TimedReply&, Errc otherwise) const;
  Result<void> remove(const std::string& slot, const std::string& lock, const std::string& other);

  const Traits& traits_;  // a row of the recipe table, which lives for ever
  const std::unique_ptr<Client> client_;

 private:
  UnansweredReleases unanswered_;
};

}  // namespace dlock::redis
