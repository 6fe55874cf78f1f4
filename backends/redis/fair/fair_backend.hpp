// SPDX-License-Identifier: Apache-2.0
// The recipe `fair`: LockState in Redis. Every operation is one script, so it is one round trip and
// one decision. A waiter sleeps in BLPOP on its own list, until a script that makes room wakes it
// up.
#pragma once
#include <algorithm>
#include "redis/fair/fair_record.hpp"
#include "redis/redis_backend.hpp"

namespace dlock::redis {

// patience_of() is how long a waiter may send nothing before it is dropped. A waiter polls at least
// three times in that time. A waiter that was woken and does not claim the lock within `claim`
// loses its place. So a dead first waiter can block the others for at most `claim`.
constexpr Duration patience_of(Duration ttl) noexcept {
  return std::clamp<Duration>(ttl / 3, std::chrono::seconds{3}, std::chrono::seconds{10});
}
inline constexpr Duration claim = std::chrono::seconds{2};

class FairBackend final : public RedisBackend {
 public:
  using RedisBackend::RedisBackend;

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
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    return inspect(keys_of(key), &key);
  }
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override {
    return inspect({options().prefix, name}, nullptr);
  }
  Result<Released> revoke(const Key&) override;
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;
  Result<void> erase(const Key& key) override {
    const FairKeys at = keys_of(key);
    return remove(at.slot(), at.lock(), at.queue());
  }

 private:
  FairKeys keys_of(const Key& key) const { return {options().prefix, key}; }
  // Calls a script that needs only the lock's key. `confirmed`: waits for as many replicas as
  // ?replicas= demands.
  Result<TimedReply> call(std::string_view what, const Script&, const Key&,
                          std::vector<std::string> args, bool confirmed = false);
  // Calls a script that needs the queue, too. If the slot is being moved and another server has the
  // queue, the script does what the lock's key alone allows.
  Result<TimedReply> call_with_queue(std::string_view what, const Script&, const FairKeys&,
                                     std::vector<std::string> args);
  Result<Renewal> extend(const Lease&, Duration ttl, std::string ended);
  // `wanted`: the key that the caller named; the server may have lost it. null: the key was found
  // on the server.
  Result<std::optional<KeyView>> inspect(const FairKeys&, const Key* wanted);
};

}  // namespace dlock::redis
