// SPDX-License-Identifier: Apache-2.0
// The seam between locking and the services that store locks.
//
// A Backend is one connection with one recipe. It is used by a single thread and has no callbacks.
// Any call may take as long as the network does, so nothing that must happen on time may wait for
// one to return. Every call can be repeated: the owner id recognises a request whose reply was
// lost. Nothing is released in a destructor, because releasing can fail.
#pragma once
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
  // the lock lasts while any process has this open file; the backend owns it. -1: none
  int hold_fd = -1;
  // readable: the lock has changed (forced release, revocation); call renew at once. -1: none
  int alarm_fd = -1;
  // Several keys that were taken together: the leases of all but the first key, and the open files
  // of all keys.
  std::vector<Lease> more_leases{};
  std::vector<int> more_holds{};
};
struct Waiting {
  std::size_t ahead = 0;             // the number of waiters ahead; unknown: 0
  std::optional<HolderView> holder;  // one of those in the way
  // what else is in the way, for people: "the server restarted 12s ago; grants resume in 48s"
  std::string why{};
  // Before the newest request left whose reply came during this poll; Deadline{}: none came, and
  // the rest is what was known before.
  Deadline sent_at{};
};
struct Busy {
  std::optional<HolderView> holder;
  std::string why{};   // as above
  Deadline sent_at{};  // as above
};
using Progress = std::variant<Granted, Waiting, Busy>;

// A place in the queue of one key.
class Waiter {
 public:
  virtual ~Waiter() = default;  // closes; does not cancel
  // Blocks until granted, until `slice` is over or until Settings::interrupt_fd is readable,
  // whichever comes first. Slice 0: one try. Busy only for a Request that does not wait. An Error
  // means "unknown": poll again, or cancel.
  virtual Result<Progress> poll(Duration slice) = 0;
  // Leaves the queue, and releases a grant that came meanwhile. Idempotent. After it only cancel()
  // may be called: a new attempt enqueues a Request with another owner.
  virtual Result<void> cancel() = 0;
};

// The only result that moves the deadline.
struct Kept {
  Lease lease;
  bool revoked = false;  // this holder was asked to stop (revoke); it holds until it does
};
// Final: another may hold it.
struct Lost {
  std::string why;
};
using Renewal = std::variant<Kept, Lost>;  // an unknown outcome is an Error and changes nothing

enum class Released { yes, was_not_held };
enum class Validity { valid, stale };

// A start noted for a key (--once-per), and when its note is not needed any more, by the store's
// wall clock, in microseconds since 1970.
struct Start {
  std::int64_t at = 0, until = 0;
  bool operator==(const Start&) const = default;
};
struct Starts {
  std::int64_t now = 0;
  std::optional<Start> last;  // the newest
};
// Made only if the note is still the one that was read; nullopt: there is none. One that is not
// needed any more counts as none.
struct StartChange {
  std::optional<Start> was, is;
  // Whether it may be made where this is noted. Also if that is `is` already: the change is
  // repeated, because its answer was lost.
  bool fits(const std::optional<Start>& noted, std::int64_t now) const noexcept;
};
enum class Noted { yes, other_start, not_held };

// One fact about a store that decides whether it is fit for locks.
struct Finding {
  enum class Level { good, warning, bad, unknown } level;
  std::string what;    // "maxmemory-policy"
  std::string seen;    // "allkeys-lru"
  std::string advice;  // empty when good
};

// What a store that may become unreachable, or lose data, reports besides its replies.
struct Health {
  // Readable while a lock is held: the store became unreachable, or another event that all of its
  // holders notice together. A holder then renews soon, at a random moment, which clears it. The
  // same descriptor for the lifetime of the Backend, which owns it; -1: none. For use after a
  // grant.
  int outage_fd = -1;
  // At the last request it granted nothing to any owner: a wait that ends like that is
  // "unavailable", not "busy".
  bool grants_nothing = false;
  // About this store, since it was opened, each once, in this order.
  std::vector<std::string> warnings{};
};

struct Counters {              // for bench and tests
  std::uint64_t requests = 0;  // commands sent to the store; for `file`: state transitions
  std::uint64_t wakeups = 0;   // times a waiter woke for an event
};

class Backend {
 public:
  virtual ~Backend() = default;  // closes; releases nothing
  virtual const Traits& traits() const noexcept = 0;
  virtual std::string where() const = 0;  // redacted URL or directory, for messages

  // Prepares to wait; the first poll sends the request. Nothing was released or cancelled under the
  // owner (lease.hpp). Errc::usage when the recipe does not support the request.
  virtual Result<std::unique_ptr<Waiter>> enqueue(const Request&) = 0;

  // A lease: asks for `ttl` more from now. Attached with no_deadline: checks that the record is
  // still ours. A lease that has ended is never revived.
  virtual Result<Renewal> renew(const Lease&, Duration ttl) = 0;

  // Lets the lock last for `ttl` from now, longer or shorter, without this process, and without its
  // lock-delay. Errc::usage if by its Traits no lock outlives the process, or not for so long. An
  // Error leaves the lock as it was. `end`: as for release().
  virtual Result<Renewal> detach(const Lease&, Duration ttl,
                                 std::optional<RunEnd> end = std::nullopt) = 0;

  // Granted::alarm_fd is readable: takes what has arrived. False: it says nothing of this lease,
  // and no renewal is needed.
  virtual bool alarmed(const Lease&) { return true; }

  // `end`: how the job under this lease ended. With Traits::keeps_last_run it is written as the
  // last run of the key, in the request that is sent anyway, and only where the lease was in force.
  // A run with a newer token that is recorded already stays.
  virtual Result<Released> release(const Lease&, std::optional<RunEnd> end = std::nullopt) = 0;

  // For operators: removes the holder with this token, or all of them. The fence stays. No
  // lock-delay.
  virtual Result<Released> force_release(const Key&, std::optional<FencingToken>) = 0;

  // Valid: such a grant is in force now.
  virtual Result<Validity> check(const Key&, const GrantId&) = 0;

  // nullopt: the key is unknown to the store. A store that may have forgotten it gives a view that
  // says so (KeyView::unread).
  virtual Result<std::optional<KeyView>> inspect(const Key&) = 0;
  // What the store calls the keys below the prefix of the URL, without it, in any order. If it
  // grants nothing then, some may be missing. See list().
  virtual Result<std::vector<std::string>> names() = 0;
  // A key by its name in the store; nullopt: it is not there any more, or not a key of dlock.
  virtual Result<std::optional<KeyView>> inspect_name(const std::string& name);

  // Asks those that hold the key when it is called to stop (Kept::revoked). The request names their
  // grants: a late or repeated one never asks a later holder. Errc::usage if the recipe does not
  // support it.
  virtual Result<Released> revoke(const Key&);

  // --once-per, if Traits::starts is true (else Errc::usage).
  virtual Result<Starts> starts(const Key&);
  // Makes the change, if the lease is in force and the change fits; else nothing is changed. Others
  // may hold the key, too, so a start may come between these two. After an Error: repeat it.
  virtual Result<Noted> note_start(const Lease&, const StartChange&);

  // Removes all data of the key, above all the fence; a missing key is fine. No part of locking: a
  // token must never fall, so it is only for a key that will never be used again (bench).
  virtual Result<void> erase(const Key&);

  // Is this store fit for locks? Only an unreachable store is an Error.
  virtual Result<std::vector<Finding>> doctor();

  virtual Counters counters() const noexcept { return {}; }
  virtual Health health() { return {}; }
  // What happens to such a lease when the store restarts, as far as the URL decides it, for
  // --explain; empty: nothing notable. Errc::usage: enqueue() refuses such a lease.
  virtual Result<std::string> after_restart(const Request&) const { return std::string{}; }

 protected:
  Error cannot(std::string_view what) const;  // Errc::usage: this recipe does not support it
};

// Every key of the store, in byte order.
Result<std::vector<KeyView>> list(Backend&);

}  // namespace dlock
