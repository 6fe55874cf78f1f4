// SPDX-License-Identifier: Apache-2.0
// Redlock over independent masters, with a fencing token. Source: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/; the
// token is dlock's own.
//
// A grant takes two rounds. Phase 1: each master that has no lock sets it and answers with a number higher than all it has given
// (scripts/acquire.lua). With a majority of votes the token is the highest of these numbers. Phase 2: it is written back to each
// master whose vote is still ours (scripts/confirm.lua); a majority of these makes the grant. The lease counts from before phase 1.
//
// Why tokens rise: two grants A and B each have a majority of confirmations, so some master confirmed both. There its votes for A and for B did not
// overlap, because owners are unique and a lock is set only where there is none. If A's came first, A's token was written there under A's vote; so the number
// that the master gave to B is higher, and it confirms nothing lower than what it gave. No clock is used: should locks end early and two holders
// overlap, their tokens still tell who came later. What is used is that a majority remembers its numbers: a master that may have lost its memory gives none
// below its clock, and has no vote during restart_grace.
//
// What a vote is: the value of the lock there, the owner and 16 hex digits that are new for each attempt. So each attempt is an owner to the masters, and
// must be one: an undo or a release of which the answer got lost is sent again on the next connection, and its first copy may arrive even later. Should it find
// votes of a later attempt, two clients could have a majority each. A handle has the owner alone; with it the vote is looked for, among confirmed ones.
//
// Interleavings that remain:
// 1. An attempt got no answer from a master, and the connection broke. The request may still arrive after the undo that follows on the next
//    connection: that vote blocks the key there until its ttl is over. A majority of the others is enough for the next holder.
// 2. Clocks of a majority jump ahead, or a majority restarts without its memory and restart_grace is 0: locks end early, and a second holder is
//    let in. The first gets to know with its next renewal; its token is lower.
// 3. A holder is frozen past its deadline and goes on for a moment when it wakes: as with every lease.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "core/backend.hpp"
#include "redis/client.hpp"
#include "redis/options.hpp"
#include "redis/tls.hpp"
#include "redlock/masters.hpp"
#include "redlock/seen.hpp"

namespace dlock::redlock {

// How long one master is waited for: a slow one must not use up the lease.
constexpr Duration node_patience(Duration ttl) noexcept {
  return std::clamp<Duration>(ttl / 20, std::chrono::milliseconds{10}, std::chrono::milliseconds{200});
}
// A grant of which less is left is none.
constexpr Duration least_validity(Duration ttl) noexcept { return ttl / 4; }

// The names in the store: the lock under that of others, and beside it dlock's own.
struct Names {
  std::string lock, record, wake;
  explicit Names(std::string lock_name);
  std::vector<std::string> all() const { return {lock, record, wake}; }
  static std::optional<std::string> lock_of(std::string_view record);  // nothing: not a record
  static std::string records_below(std::string_view prefix);           // pattern for SCAN
};

// One attempt to take the lock.
struct Attempt {
  std::optional<Lease> lease;
  std::optional<HolderView> holder;  // not taken: who has the most votes
  std::optional<Duration> free_in;   // when time alone may give a majority
  std::string why;
  bool foreign = false;     // that is no dlock, and will wake nobody
  bool split = false;       // nobody has a majority
  bool unanswered = false;  // masters that did not answer could have made the difference
};

class RedlockBackend final : public Backend {
 public:
  static Result<std::unique_ptr<RedlockBackend>> create(const Traits&, redis::Options);

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return options_.where; }
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
  Counters counters() const noexcept override { return {requests, wakeups}; }

  // Needs masters().gather() before.
  Attempt attempt(const Request&);

  Masters& masters() noexcept { return masters_; }
  const redis::Options& options() const noexcept { return options_; }
  const redis::TlsContext* tls() const noexcept { return tls_ ? &*tls_ : nullptr; }
  Names names(const Key& key) const { return Names{options_.prefix + key.text()}; }
  Deadline usual_deadline() const noexcept;

  std::uint64_t requests = 0, wakeups = 0;

 private:
  RedlockBackend(const Traits& traits, redis::Options options, std::optional<redis::TlsContext> tls)
      : traits_(traits), options_(std::move(options)), tls_(std::move(tls)), masters_(options_, this->tls(), requests) {}

  // Asks every master, again and again until it is decided or the usual deadline has passed. An error: no majority could be asked.
  struct Outcome {
    Votes votes;
    Deadline sent;          // before the first request left
    bool repeated = false;  // an earlier request may have been carried out as well
  };
  Result<Outcome> insist(const Ask&, const std::function<bool(const Votes&)>& decided, Duration patience);
  Result<std::vector<std::optional<Seen>>> look(const Names&, Votes* votes = nullptr);
  Result<Validity> check(const Key&, const std::function<bool(const Seen&)>& is_it);
  Result<std::optional<KeyView>> inspect(const Names&);
  Result<std::unique_ptr<redis::Client>> client_of(std::size_t master) const;

  const Traits& traits_;  // of the table, which lives for ever
  const redis::Options options_;
  std::optional<redis::TlsContext> tls_;
  Masters masters_;
  void undo(const Names&, const std::string& vote, Duration ttl);
  struct Grant {
    Key key;
    Owner owner;
    std::string vote;
    bool given_back = false;  // or about to be: no attempt may use it again
  };
  Grant* known(const Key&, const Owner&);
  void forget(const Key&, const Owner&);
  // What the masters have for a lease: known from its grant, or asked for where another process took it. Nothing: no majority can have it.
  Result<std::optional<std::string>> vote_of(const Lease&);
  std::vector<Grant> grants_;
  std::optional<Owner> release_unanswered_;
  bool ever_ready_ = false;
};

}  // namespace dlock::redlock
