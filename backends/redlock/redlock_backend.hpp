// SPDX-License-Identifier: Apache-2.0
// Redlock over independent masters, with a fencing token. Source:
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/; the token is dlock's own.
//
// A grant takes two rounds. Phase 1: each master that does not have the lock sets it, which is the
// master's vote. It replies with a number that is higher than all numbers it has given (acquire, in
// redlock.lua). If a majority votes for us, the token is the highest of these numbers. Phase 2:
// dlock writes the token back to each master whose vote is still ours (confirm). A majority of
// confirmations makes the grant. The lease counts from the time before phase 1.
//
// Why tokens rise: two grants A and B each have a majority of confirmations, so some master
// confirmed both. At that master the votes for A and B did not overlap, because owners are unique
// and a lock is set only if there is none. If A's vote came first, A's token was written there
// before the master voted for B. So the number that the master then gave to B is higher than A's
// token, and the master confirms no token below that number. Clocks do not matter for this: if
// locks end early and two holders overlap, their tokens still show which came later. The assumption
// is that a majority remembers its numbers. A master that may have lost its data gives no number
// below its clock, and has no vote during restart_grace.
//
// A vote is the value of the lock at a master, and the value is the owner. An owner names one
// attempt. An undo or release whose reply was lost is sent again on the next connection, and its
// first copy may arrive even later. If that copy removed votes of a later attempt, two clients
// could each have a majority. So an attempt that was undone is never repeated: the next attempt has
// a new owner, and the lease names that owner. If a master has not answered an undo, the undo is
// the first request on the next connection.
//
// Lists: all of this is true only for clients with the same list of masters, because majorities of
// two lists need not overlap. So each master stores the list of the key's last confirmed grant. A
// client with another list gets no vote, and the reply says why. To change the list on purpose
// (list_change=yes), every master that is in both lists must vote. These masters are at least half
// of the old list, so no holder has a majority of the old list any more. Before the first of these
// masters stores the new list, all of them have stored that the old list is over. So a lost message
// never gives each list a majority. tests/pure/redlock/list_model_test.cpp searches schedules for a
// counterexample, and finds one if any of these rules is left out. dlock does not detect lists
// without a common master, keys unknown to all masters, masters that lost their data or were away
// since the key was used, and clients other than dlock.
//
// Interleavings that remain:
// 1. An attempt gets no reply from a master, and the connection breaks. The request may arrive
//    after the undo, which is sent on the next connection. Then the vote for this attempt blocks
//    the key at that master until the ttl is over. A majority of the other masters is enough for
//    the next holder.
// 2. The clocks of a majority jump ahead, or a majority restarts without its data and restart_grace
//    is 0: locks end early, and a second holder is granted. The first holder notices at its next
//    renewal, and its token is lower than that of the second holder.
// 3. A holder is frozen past its deadline and runs for a moment when it wakes, as with every lease.
#pragma once
#include "common/unanswered_releases.hpp"
#include "redis/wire/client.hpp"
#include "redlock/factory.hpp"
#include "redlock/masters.hpp"
#include "redlock/record.hpp"
#include "store/backend.hpp"
#include "util/fd.hpp"

namespace dlock::redlock {

// How long to wait for one master, so that a slow master does not use up the lease.
constexpr Duration node_patience(Duration ttl) noexcept {
  return std::clamp<Duration>(ttl / 20, std::chrono::milliseconds{10},
                              std::chrono::milliseconds{200});
}
// A grant counts only if at least this much of its time is left.
constexpr Duration least_validity(Duration ttl) noexcept { return ttl / 4; }

// One attempt to take the lock.
struct Attempt {
  std::optional<Lease> lease;
  std::optional<HolderView> holder;  // if not granted: the holder with the most votes
  std::optional<Duration> free_in;   // after this time a majority may be free without any release
  std::string why;
  // If set, no other result counts. The Error says that a master has another list, that the list
  // cannot be changed now, or that no majority can vote (hopeless()).
  std::optional<Error> refused;
  bool foreign = false;     // the holder is another program, which wakes no waiter
  bool unanswered = false;  // masters without a reply could have given a majority
  bool undone = false;      // its votes are being released: its owner must not be used again
};

class RedlockBackend final : public Backend {
 public:
  RedlockBackend(const Traits& traits, Options options)
      : traits_(traits), options_(std::move(options)), masters_(options_, credentials_, requests) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return options_.where; }
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    return inspect(names(key), true);
  }
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override {
    return inspect(Names{options_.prefix + name}, false);
  }
  Result<Released> revoke(const Key&) override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override;
  Result<std::string> after_restart(const Request& r) const override {
    return redis::restart_rule({r.ttl}, options_.restart_grace);
  }
  Health health() override;
  Counters counters() const noexcept override { return {requests, wakeups}; }

  // Makes one attempt under `owner`, not under the request's owner. The waiter calls it, after
  // masters().gather().
  Attempt attempt(const Request&, const Owner& owner);
  // Releases `vote` at the masters of `whom` (empty: all), without waiting. Each master gets the
  // request again until it replies or the ttl is over.
  void undo(const Names&, const std::string& vote, Duration ttl,
            std::function<bool(std::size_t)> whom = {});
  void gave(Duration ttl);  // records a grant with this ttl
  Masters& masters() noexcept { return masters_; }
  const Options& options() const noexcept { return options_; }
  Credentials& credentials() noexcept { return credentials_; }
  Names names(const Key& key) const { return Names{options_.prefix + key.text()}; }
  Deadline usual_deadline() const noexcept;

  std::uint64_t requests = 0, wakeups = 0;
  // True: so many masters were in their grace period that the others were no majority. Each attempt
  // of a waiter and each listing of keys sets the value again.
  bool in_grace = false;

 private:
  // insist() calls every master, again and again, until `decided` is true or the usual deadline has
  // passed. It returns an error if no majority could be asked.
  struct VoteRound {
    Votes votes;
    Deadline sent;          // a time before the first request was sent
    bool repeated = false;  // an earlier request may have been carried out, too
  };
  Result<VoteRound> insist(const Calls&, const std::function<bool(const Votes&)>& decided,
                           Stragglers = {});
  Result<Renewal> extend(const Lease&, Duration ttl, std::string ended);
  Result<Renewal> renewed(const Lease&, Duration ttl, const VoteRound&, const Names&);
  Error wrong_list(std::size_t master, std::string_view recorded) const;
  Error too_few_answered(std::string_view what, std::size_t answered) const;
  // Call it when the request `what` has found no holder. Errc::unavailable: there may be a holder
  // all the same, because masters do not reply or restarted recently.
  Result<void> nothing_unread(std::string_view what, const NodeStates&) const;
  void watch();
  Result<NodeStates> read_states(const Names&, Votes* votes = nullptr);
  // `named`: a caller named the key. Otherwise the key was found at a master.
  Result<std::optional<KeyView>> inspect(const Names&, bool named);
  // Returns KeyView::unknown_reason. A master that does not reply, or that restarted recently, does
  // not prove that there is no vote.
  std::string unread(const NodeStates&) const;
  Result<std::unique_ptr<redis::Client>> client_of(std::size_t master) const;

  const Traits& traits_;  // a row of the recipe table, which lives for ever
  Options options_;
  Credentials credentials_{options_};
  Masters masters_;
  UnansweredReleases unanswered_;
  bool ever_ready_ = false;
  Duration gave_{};  // the longest ttl of any grant or renewal
  Fd outage_;        // Health::outage_fd, an epoll(7) of the connections
};

}  // namespace dlock::redlock
