// SPDX-License-Identifier: Apache-2.0
// The interface between dlock and the services that store locks.
//
// A Backend is one connection to a store with one recipe. A single thread uses it: in a run the
// Keeper, in other commands the main thread. It has no callbacks. Any call may block as long as the
// network does, so nothing that must happen on time may wait for a call. Every call can be
// repeated: if the reply to a request was lost, the store recognises the repetition by the owner
// id. No destructor releases anything, because a release can fail.
#pragma once
#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/lease.hpp"
#include "store/key_view.hpp"
#include "store/last_run.hpp"
#include "store/traits.hpp"

namespace dlock {

// The result of one step of an acquisition.
struct Granted {
  Lease lease;
  // The lock lasts while any process has this open file. The Backend owns the descriptor. -1: none.
  int hold_fd = -1;
  // Readable if the lock has changed (forced release, revocation): call renew() at once. -1: none.
  int alarm_fd = -1;
  // If several keys were acquired together, the leases of all keys but the first.
  std::vector<Lease> more_leases{};
  // If several keys were acquired together, the open files of all keys (as hold_fd).
  std::vector<int> more_holds{};
};
struct Waiting {
  std::size_t ahead = 0;             // the number of waiters ahead; 0 if unknown
  std::optional<HolderView> holder;  // one of the holders that block this request
  // What else blocks the request, for people: "the server restarted 12s ago; grants resume in 48s".
  std::string why{};
  // The newest request that got a reply during this poll was sent after this time. Deadline{}: no
  // request got a reply, and the other fields show what was known before.
  Deadline sent_at{};
  std::string key{};  // the key that blocks the request; empty: the key of the Request
};
struct Busy {
  std::optional<HolderView> holder;
  std::string why{};   // as in Waiting
  Deadline sent_at{};  // as in Waiting
  std::string key{};   // as in Waiting
};
using Progress = std::variant<Granted, Waiting, Busy>;

// An attempt to acquire one key: an entry in its queue or, without a queue, repeated requests.
class Waiter {
 public:
  virtual ~Waiter() = default;  // closes connections, but does not cancel
  // Blocks until the lock is granted, `slice` is over or Settings::interrupt_fd is readable. Slice
  // 0: one try. Returns Busy only for a Request that does not wait. An Error means that the state
  // is unknown: poll again, or cancel.
  virtual Result<Progress> poll(Duration slice) = 0;
  // Leaves the queue, and releases a grant that came meanwhile. Idempotent. After cancel() only
  // cancel() may be called: a new attempt enqueues a Request with another owner.
  virtual Result<void> cancel() = 0;
};

// The renewal succeeded. No other result moves the deadline.
struct Kept {
  Lease lease;
  bool revoked = false;  // somebody asked this holder to stop (revoke); the lock is still held
};
// The lock is lost. This is final: another owner may hold it.
struct Lost {
  std::string why;
};
using Renewal = std::variant<Kept, Lost>;  // an Error: the outcome is unknown; the deadline stays

enum class Released { yes, was_not_held };
enum class Validity { valid, stale };

// The record of a start (--once-per): its time, and until when the record is needed. Both are on
// the store's wall clock, in microseconds since 1970.
struct RunStart {
  std::int64_t at = 0, until = 0;
  bool operator==(const RunStart&) const = default;
};
struct RunStarts {
  std::int64_t now = 0;
  std::optional<RunStart> last;  // the newest start
  std::string key{};             // the key of that start; empty: the key of the call
};
// Asks the store to change its record from `was` to `is`; nullopt: no record. The store makes the
// change only if its record still is `was`. A record that is no longer needed counts as no record.
struct RunStartUpdate {
  std::optional<RunStart> was, is;
  // Returns whether the store may make the change when its record is `noted`. It also returns true
  // if `noted` already equals `is`: then the caller repeats a change whose reply was lost.
  bool fits(const std::optional<RunStart>& noted, std::int64_t now) const noexcept;
};
enum class UpdateResult { yes, other_start, not_held };

// One fact about a store. --doctor shows the findings, and decides by them whether the store is fit
// for locks.
struct Finding {
  enum class Level { good, warning, bad, unknown } level;
  std::string what;    // "maxmemory-policy"
  std::string seen;    // "allkeys-lru"
  std::string advice;  // what to do; empty if the finding is good
};

// What a Backend reports about its store in addition to its replies: whether the store is
// reachable, and whether it may have lost data.
struct Health {
  // A descriptor that becomes readable if something happens that all holders notice together, such
  // as a store that becomes unreachable. The holder must then renew soon, at a random moment; after
  // the renewal the descriptor is not readable any more. Use it only after a grant. The Backend
  // owns the descriptor, and its number never changes. -1: none.
  int outage_fd = -1;
  // At the last request the store was in a grace period, in which it grants nothing to anybody. A
  // wait that ends during a grace period is "unavailable", not "busy".
  bool in_grace_period = false;
  // All warnings for the user about this store since the Backend was opened, each once.
  std::vector<std::string> warnings{};
};

struct Counters {              // for `dlock bench` and tests
  std::uint64_t requests = 0;  // commands sent to the store; for `file`: state transitions
  std::uint64_t wakeups = 0;   // times a waiter woke for an event
};

class Backend {
 public:
  virtual ~Backend() = default;  // closes connections, but releases nothing
  virtual const Traits& traits() const noexcept = 0;
  virtual std::string where() const = 0;  // the redacted URL or the directory, for messages

  // A recipe that shares its locks with other programs may lock a long key under a shorter name.
  // For such a key this function returns a sentence that says so to people. Empty: the key is the
  // name.
  virtual std::string replaced_name(const Key&) const { return {}; }

  // Prepares to wait; the first poll sends the request. The caller must not have released or
  // cancelled anything under this owner (lease.hpp). Errc::usage: the recipe does not support the
  // request.
  virtual Result<std::unique_ptr<Waiter>> enqueue(const Request&) = 0;

  // Asks for a lease that lasts for `ttl` from now on. For an attached lock whose deadline is
  // no_deadline, renew() only checks that the record is still ours. renew() never revives a lease
  // that has ended.
  virtual Result<Renewal> renew(const Lease&, Duration ttl) = 0;

  // Makes the lock last for `ttl` from now on, without this process and without a lock-delay, even
  // if that shortens the lease. Errc::usage: with this recipe a lock cannot outlive the process at
  // all, or not for `ttl`. An Error leaves the lock unchanged. `end`: as for release().
  virtual Result<Renewal> detach(const Lease&, Duration ttl,
                                 std::optional<RunEnd> end = std::nullopt) = 0;

  // Reads what arrived on Granted::alarm_fd. False: the alarm does not concern this lease, and no
  // renewal is needed.
  virtual bool alarmed(const Lease&) { return true; }

  // `end`: how the job under this lease ended. If the recipe has Traits::keeps_last_run, the same
  // request records `end` as the last run of the key, but only if the lease was in force. It never
  // overwrites the run of a newer token.
  virtual Result<Released> release(const Lease&, std::optional<RunEnd> end = std::nullopt) = 0;

  // For operators: removes the holder with this token, or all holders, without lock-delay. The
  // record of the newest token stays.
  virtual Result<Released> force_release(const Key&, std::optional<FencingToken>) = 0;

  // Returns `valid` if this grant is in force now.
  virtual Result<Validity> check(const Key&, const GrantId&) = 0;

  // Does the same as check() for the grant of an outer run. `dlock` is the process of that run, or
  // 0.
  virtual Result<Validity> check_outer(const Lease& outer, [[maybe_unused]] pid_t dlock) {
    return check(outer.key, outer.owner);
  }

  // nullopt: the store does not know the key. If the store may have lost the key, the view says so
  // (KeyView::unknown_reason).
  virtual Result<std::optional<KeyView>> inspect(const Key&) = 0;
  // Returns the store's names of the keys below the prefix of the URL, without the prefix, in any
  // order. In a grace period some names may be missing. See list().
  virtual Result<std::vector<std::string>> names() = 0;
  // Returns a key by its name in the store. nullopt: the key is gone, or does not belong to dlock.
  virtual Result<std::optional<KeyView>> inspect_name(const std::string& name);

  // Asks the present holders of the key to stop (Kept::revoked). The request names their grants, so
  // a late or repeated request never asks a later holder. Errc::usage: the recipe does not support
  // it.
  virtual Result<Released> revoke(const Key&);

  // --once-per: reads the record of the last start. Errc::usage if Traits::starts is false.
  virtual Result<RunStarts> starts(const Key&);
  // If the lease is in force and the change fits the record, makes the change; otherwise changes
  // nothing. Other holders may record a start between starts() and this call. After an Error,
  // repeat the call.
  virtual Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&);

  // Removes all data of the key, also its newest token. A missing key is not an error. Call it only
  // for a key that nobody will ever use again (bench), because tokens must never fall.
  virtual Result<void> erase(const Key&);

  // Checks whether this store is fit for locks (--doctor). Error: the store is unreachable.
  virtual Result<std::vector<Finding>> doctor();

  virtual Counters counters() const noexcept { return {}; }
  virtual Health health() { return {}; }
  // For --explain: returns what happens to the lease of such a request when the store restarts, if
  // that depends on the URL; empty: nothing notable. Errc::usage: enqueue() refuses such a request.
  virtual Result<std::string> after_restart(const Request&) const { return std::string{}; }

 protected:
  Error cannot(std::string_view what) const;  // Errc::usage: this recipe does not support it
};

// Returns every key of the store, in byte order.
Result<std::vector<KeyView>> list(Backend&);

}  // namespace dlock
