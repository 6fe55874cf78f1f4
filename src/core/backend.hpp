// SPDX-License-Identifier: Apache-2.0
// The seam between locking and the services that store locks.
//
// A Backend is one connection with one recipe. It is used by a single thread and has no callbacks.
// Any call may take as long as the network does, so nothing that must happen on time may wait for
// one to return. Every call can be repeated: the owner id recognises a request whose reply was
// lost. Nothing is released in a destructor, because releasing can fail.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/last_run.hpp"
#include "core/lease.hpp"
#include "core/url.hpp"

namespace dlock {

// What ends the lock of a holder that is attached to a process.
enum class Liveness {
  // a descriptor: the kernel ends the lock with the last process that has it; no deadline, no
  // renewal
  process,
  // a connection to a server: ends with it, or some time after the server last received data
  connection,
  session,  // a session of a server that outlives connections
  lease,    // time alone
};

// The features of a recipe. The command line reads these, never types.
struct Traits {
  std::string_view family;  // "file"; the first word of a sequencer
  std::string_view recipe;  // "lease"
  Liveness liveness;
  bool fifo;      // grants in order of arrival
  bool shared;    // Mode::shared
  bool permits;   // Mode::permit
  bool detached;  // a lease can outlive the process that took it
  bool lock_delay;
  bool wakes;  // waiters sleep until it is their turn; false: they poll
  // keys are prefixed and encoded by dlock; false: the key is the name that other programs use
  bool native;
  std::string_view weakness;    // one sentence for --explain, inspect and the manual
  bool starts = false;          // notes when a job was started (--once-per)
  bool revokes = false;         // has Backend::revoke
  bool keeps_last_run = false;  // has Backend::job_ended
  // a historical algorithm, for use with programs that have it: each use warns
  bool legacy = false;
  // How much of a ttl is proven, from what the URL says of the servers; the less, the longer a
  // lock-delay is that the same session has to outlast. nullptr: all but drift(ttl).
  Duration (*proves)(Duration ttl, Duration delay, const Url&) = nullptr;
  Duration proven_of(Duration ttl, Duration delay, const Url& url) const {
    return proves ? proves(ttl, delay, url) : ttl - drift(ttl);
  }
};

// A part of a request that its recipe does not support.
struct Refusal {
  std::string_view option;  // "limit"
  std::string why;          // "recipe flock of file has no permits"
};
std::optional<Refusal> refusal(const Traits&, const Request&);
// The same as Errc::usage, "--limit: recipe flock of file has no permits". Backend::enqueue begins
// with it.
Result<void> can_serve(const Traits&, const Request&);

struct HolderView {  // what people see; the deciding copy is in the store
  std::string id;    // a prefix of the owner id, enough to tell holders apart, useless as a handle
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;
  bool attached = false;
  bool vanished = false;              // gone; only its lock-delay still runs
  std::optional<Duration> remaining;  // until the lease (or lock-delay) ends without a renewal
  // since the grant, by the store's clock; nullopt: the store does not keep it
  std::optional<Duration> held;
  bool revoked = false;  // it was asked to stop (Backend::revoke)
  Identity who;
  // Lease and lock-delay are over, or a process without lock-delay is gone: nothing holds the key
  // any more, and the store has not cleared the record away.
  bool ended() const noexcept { return remaining && *remaining <= Duration{}; }
};
struct WaiterView {
  std::string id;
  Mode mode = Mode::exclusive;
  Identity who;
};
struct KeyView {
  std::string key;
  FencingToken fence = 0;           // newest token granted
  std::vector<HolderView> holders;  // those that have ended come last
  std::vector<WaiterView> waiters;  // in queue order
  bool waiters_known = true;        // false: this recipe cannot know
  std::vector<std::string> notes;   // remarks about this record, for people
  // Not empty: why there may be holders that are not in `holders`, for people. A key without one is
  // not known to be free then.
  std::string unread{};
  // With Traits::keeps_last_run: of the newest token of those released.
  std::optional<LastRun> last_run{};
  // The newest start noted (Backend::note_start), by the same clock, while the store keeps it.
  std::optional<std::int64_t> noted_start{};
};

// The result of one step of an acquisition.
struct Granted {
  Lease lease;
  // the lock lasts while any process has this open file; the backend owns it. -1: none
  int hold_fd = -1;
  // readable: the lock has changed (forced release, revocation); call renew at once. -1: none
  int alarm_fd = -1;
  // the other keys, when several were taken together; a store never sets it
  std::vector<Lease> more{};
  std::vector<int> more_holds{};  // as hold_fd, of those
};
struct Waiting {
  std::size_t ahead = 0;             // the number of waiters ahead; unknown: 0
  std::optional<HolderView> holder;  // one of those in the way
  // what else is in the way, for people: "the server restarted 12s ago; grants resume in 48s"
  std::string why{};
};
struct Busy {
  std::optional<HolderView> holder;
  std::string why{};  // as above
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

struct Kept {
  Lease lease;
  bool revoked = false;  // this holder was asked to stop (revoke); it holds until it does
};                       // the only result that moves the deadline
struct Lost {
  std::string why;
};                                         // final: another may hold it
using Renewal = std::variant<Kept, Lost>;  // an unknown outcome is an Error and changes nothing

enum class Released { yes, was_not_held };
enum class Validity { valid, stale };

// A start noted for a key (--once-per), and when its note is not needed any more, by the store's wall
// clock, in microseconds since 1970.
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
  // Error leaves the lock as it was.
  virtual Result<Renewal> detach(const Lease&, Duration ttl) = 0;

  // Granted::alarm_fd is readable: takes what has arrived. False: it says nothing of this lease, and
  // no renewal is needed.
  virtual bool alarmed(const Lease&) { return true; }

  virtual Result<Released> release(const Lease&) = 0;

  // The job under this lease has ended: the next release or detach writes it as the last run of the
  // key, in the request that it sends anyway, and only where the lease was in force. A run with a
  // newer token that is recorded already stays. Nothing happens without Traits::keeps_last_run.
  virtual void job_ended(const Lease&, RunEnd) {}

  // For operators: removes the holder with this token, or all of them. The fence stays. No
  // lock-delay.
  virtual Result<Released> force_release(const Key&, std::optional<FencingToken>) = 0;

  // Valid: a grant with this token, of any owner (or of `owner` with any token), is in force now.
  virtual Result<Validity> check(const Key&, FencingToken) = 0;
  virtual Result<Validity> check(const Key&, const Owner&) = 0;

  // nullopt: the key is unknown to the store. A store that may have forgotten it gives a view that
  // says so (KeyView::unread).
  virtual Result<std::optional<KeyView>> inspect(const Key&) = 0;
  // Every key below the prefix, in byte order. If grants_nothing() then, some may be missing.
  virtual Result<std::vector<KeyView>> list() = 0;

  // Asks those that hold the key when it is called to stop (Kept::revoked). The request names their
  // grants: a late or repeated one never asks a later holder. Errc::usage if the recipe does not
  // support it.
  virtual Result<Released> revoke(const Key&);

  // --once-per, if Traits::starts is true (else Errc::usage).
  virtual Result<Starts> starts(const Key&);
  // Makes the change, if the lease is in force and the change fits; else nothing is changed. Others
  // may hold the key, too, so a start may come between these two. After an Error: repeat it.
  virtual Result<Noted> note_start(const Lease&, const StartChange&);

  // Is this store fit for locks? Only an unreachable store is an Error.
  virtual Result<std::vector<Finding>> doctor();

  virtual Counters counters() const noexcept { return {}; }

  // What a store that may become unreachable, or lose data, reports besides its replies:

  // Readable while a lock is held: the store became unreachable, or another event that all of its
  // holders notice together. A holder then renews soon, at a random moment, which clears it. The
  // same descriptor for the lifetime of the object; -1: none. For use after a grant.
  virtual int outage_fd() { return -1; }
  // Warnings about this store since the last call; each is given once.
  virtual std::vector<std::string> warnings() { return {}; }
  // At the last request it granted nothing to any owner: a wait that ends like that is
  // "unavailable", not "busy".
  virtual bool grants_nothing() const noexcept { return false; }
  // What happens to such a lease when the store restarts, as far as the URL decides it, for
  // --explain; empty: nothing notable. Errc::usage: enqueue() refuses such a lease.
  virtual Result<std::string> after_restart(const Request&) const { return std::string{}; }

 protected:
  Error cannot(std::string_view what) const;  // Errc::usage: this recipe does not support it
};

// The credentials and TLS files for a store. What came from a file is read again from there when
// the store refuses it.
struct Secrets {
  // empty: the URL's, then the service's own source (a variable, a file)
  std::string password{};
  std::string auth{};                           // ZooKeeper: scheme:credential
  std::string password_file{}, auth_file{};     // where they came from; empty: from no file
  std::string tls_ca{}, tls_cert{}, tls_key{};  // paths; empty: the URL items of the same names
  bool tls_insecure = false;                    // verify no certificate
};

struct Settings : Secrets {
  Duration op_timeout{5'000'000};  // one exchange with the store
  Duration connect_timeout{5'000'000};
  // poll(2)-able; readable: every wait returns early. The backend does not read from it
  int interrupt_fd = -1;
};

// What a URL can use of Secrets, and its usual port.
struct Access {
  std::uint16_t port = 0;  // of a host without one
  // why it has no use for these; empty: it has
  std::string_view no_password{}, no_auth{}, no_tls{};
  std::string_view in_clear{};  // a warning for who logs in; empty: none
};

struct BackendFactory {
  std::string_view family;
  std::span<const std::string_view> schemes;  // first is the canonical one
  std::span<const Traits> recipes;            // first is the default
  // URL query items besides `recipe` and `prefix`; `where.` allows every `where.NAME`
  std::span<const std::string_view> items;
  // Checks everything in the URL that can be checked without a connection (Errc::usage) and
  // connects no earlier than the first call. `url` may be destroyed after the call: copy what you
  // need.
  Result<std::unique_ptr<Backend>> (*open)(const Url&, const Traits&, const Settings&);
  // Removes all data of these keys below the prefix of the URL, above all the fence; missing keys
  // are fine. No part of locking: a token must never fall, so it is only for keys that will never
  // be used again (bench). nullptr: this family cannot.
  Result<void> (*purge)(const Url&, const Traits&, const Settings&, std::span<const Key>) = nullptr;
  std::string_view note{};                 // for --version: "no TLS, no SASL"
  Access (*access)(const Url&) = nullptr;  // nullptr: this family has no use for Secrets
  // what does not exist yet and a first lock would make at a place that the user has named, which
  // may be misspelt; empty: nothing
  std::string (*makes)(const Url&, const Traits&) = nullptr;
};

// One explicit table, the lines dlock_backend() of backends/CMakeLists.txt; no self-registration.
std::span<const BackendFactory> backends() noexcept;

// Families that this binary was built without, with the CMake option that adds them (its bare
// name).
struct AbsentBackend {
  std::string_view family, option;
  std::span<const std::string_view> schemes;
};
std::span<const AbsentBackend> absent_backends() noexcept;

// The factory and recipe of a URL (`?recipe=`, overridden by a non-empty `recipe`). Errc::usage:
// unknown scheme, item or recipe, with the list of known ones; or not built in, with the way to get
// it.
struct Choice {
  const BackendFactory* factory;
  const Traits* traits;
};
Result<Choice> choose(const Url&, std::string_view recipe);

}  // namespace dlock
