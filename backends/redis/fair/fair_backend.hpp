// SPDX-License-Identifier: Apache-2.0
// The recipe `fair`: LockState in Redis. Every operation is one script, so one round trip and one
// decision; a waiter sleeps in BLPOP on its own list until a script that made room names it.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "common/unanswered_releases.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

// A waiter polls every third of its patience, and is dropped when it is silent for all of it. One
// that was invited and does not claim the lock within `claim` loses its place: the longest time
// that a dead queue head can block the others.
constexpr Duration patience_of(Duration ttl) noexcept {
  return std::clamp<Duration>(ttl / 3, std::chrono::seconds{3}, std::chrono::seconds{10});
}
inline constexpr Duration claim = std::chrono::seconds{2};

class FairBackend final : public Backend {
 public:
  FairBackend(const Traits& traits, std::unique_ptr<Client> client)
      : traits_(traits), client_(std::move(client)) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_->options().where; }
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
  Result<std::string> after_restart(const Request& r) const override {
    return restart_rule({r.ttl, r.lock_delay}, client_->options().restart_grace);
  }
  Health health() override { return client_->health(); }
  Counters counters() const noexcept override { return {client_->requests, wakeups}; }

  // Releases a grant that must not be used. False: not answered, so it is still owed.
  bool give_back(const Lease& lease) {
    const auto answer = release(lease, std::nullopt);
    return answer || !retryable(answer.error().code) || Clock::now() >= lease.deadline;
  }

  std::uint64_t wakeups = 0;

 private:
  FairKeys keys_of(const Key& key) const { return {client_->options().prefix, key}; }
  Result<Answer> call(std::string_view what, const Script&, const Key&,
                      std::vector<std::string> words, unsigned copies = 0);
  // Without a queue (in a slot that is being moved) the script does what the lock alone allows.
  Result<Answer> call_with_queue(std::string_view what, const Script&, const FairKeys&,
                                 std::vector<std::string> words);
  Result<Renewal> extend(const Lease&, Duration ttl, std::string ended);
  // `asked`: the key that a caller names, which the server may have forgotten; none: found there
  Result<std::optional<KeyView>> inspect(const FairKeys&, const Key* asked);

  const Traits& traits_;  // of the table, which lives for ever
  std::unique_ptr<Client> client_;
  UnansweredReleases unanswered_;
};

}  // namespace dlock::redis
