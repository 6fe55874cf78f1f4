// SPDX-License-Identifier: Apache-2.0
// The seam between locking and the services that keep locks.
//
// A Backend is one connection speaking one recipe. It is used by a single thread and calls nobody back. Any call may take
// as long as the network likes, so nothing that must happen on time may wait for one to return. Every call can be repeated:
// the owner id recognises a request whose reply was lost. Nothing is released in a destructor, because releasing can fail.
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
#include "core/lease.hpp"
#include "core/url.hpp"

namespace dlock {

// What ends the lock of a holder that is attached to a process.
enum class Liveness {
  process,     // a descriptor: the kernel ends it with the last process that has it; no deadline, no renewal
  connection,  // a connection to a server: ends with it, or some time after the server last heard of us
  session,     // a session of a server that outlives connections
  lease,       // time alone
};

// What a recipe can do. The command line asks here, never for types.
struct Traits {
  std::string_view family;  // "file"; the first word of a sequencer
  std::string_view recipe;  // "lease"
  Liveness liveness;
  bool fifo;      // grants in order of arrival
  bool shared;    // Mode::shared
  bool permits;   // Mode::permit
  bool detached;  // a lease can outlive the process that took it
  bool lock_delay;
  bool wakes;                 // waiters sleep until it is their turn; false: they poll
  bool native;                // keys are prefixed and encoded as dlock's own; false: the key is the name that others use
  std::string_view weakness;  // one sentence for --explain, inspect and the manual
  bool starts = false;        // notes when a job was started (--once-per)
  bool revokes = false;       // has Backend::revoke
  bool legacy = false;        // a historical algorithm, offered for the sake of others who use it: each use warns
  Duration (*proves)(Duration ttl) = nullptr;  // how much of a ttl is proven to be ours; nullptr: all but drift(ttl)
};

struct HolderView {  // what people see; the deciding copy is in the store
  std::string id;    // a prefix of the owner id, enough to tell holders apart, useless as a handle
  Mode mode = Mode::exclusive;
  FencingToken token = 0;
  unsigned slot = 0;
  bool attached = false;
  bool vanished = false;              // gone; only its lock-delay still runs
  std::optional<Duration> remaining;  // until the lease (or lock-delay) ends when nobody renews it
  std::optional<Duration> held;       // since the grant, by the store's clock; nullopt: the store does not keep it
  Identity who;
};
struct WaiterView {
  std::string id;
  Mode mode = Mode::exclusive;
  Identity who;
};
struct KeyView {
  std::string key;
  FencingToken fence = 0;  // newest token granted
  std::vector<HolderView> holders;
  std::vector<WaiterView> waiters;  // in queue order
  bool waiters_known = true;        // false: this recipe cannot tell
  std::vector<std::string> notes;   // what a person should know about this record
};

// The answer to a step of an acquisition.
struct Granted {
  Lease lease;
  int hold_fd = -1;   // the lock lasts while any process has this open file; it stays the backend's. -1: none
  int alarm_fd = -1;  // readable: something happened to the lock (forced release, revocation); call renew at once. -1: none
  std::vector<Lease> more{};  // the other keys, where several were taken together; a store never sets it
};
struct Waiting {
  std::size_t ahead = 0;             // how many waiters are before us; nobody knows: 0
  std::optional<HolderView> holder;  // one of those in the way
  std::string why{};                 // what else is in the way, for people: "the server restarted 12s ago; grants resume in 48s"
};
struct Busy {
  std::optional<HolderView> holder;
  std::string why{};  // as above
};
using Progress = std::variant<Granted, Waiting, Busy>;

// A place in the queue of one key.
class Waiter {
 public:
  virtual ~Waiter() = default;  // closes; does not give the place up
  // Blocks until granted, until `slice` is over or until Settings::interrupt_fd is readable, whichever comes first.
  // Slice 0: one try. Busy only for a Request that does not wait. An Error means "unknown": poll again, or cancel.
  virtual Result<Progress> poll(Duration slice) = 0;
  // Leaves the queue, and releases what may have been granted meanwhile. Idempotent.
  virtual Result<void> cancel() = 0;
};

struct Kept {
  Lease lease;
  bool revoked = false;  // somebody asks this holder to stop (revoke); it holds until it does
};                       // the only answer that moves the deadline
struct Lost {
  std::string why;
};                                         // final: somebody else may hold it
using Renewal = std::variant<Kept, Lost>;  // "could not find out" is an Error and changes nothing

enum class Released { yes, was_not_held };
enum class Validity { valid, stale };

// The newest start noted for a key (--once-per), by the store's wall clock, in microseconds since 1970.
struct Starts {
  std::int64_t now = 0;
  std::optional<std::int64_t> last;
};

// One fact about a store that decides whether it is fit to keep locks.
struct Finding {
  enum class Level { good, warning, bad, unknown } level;
  std::string what;    // "maxmemory-policy"
  std::string seen;    // "allkeys-lru"
  std::string advice;  // what to do about it; empty when good
};

struct Counters {              // for bench and tests
  std::uint64_t requests = 0;  // commands sent to the store; for `file`: state transitions
  std::uint64_t wakeups = 0;   // times a waiter woke because something happened
};

class Backend {
 public:
  virtual ~Backend() = default;  // closes; releases nothing
  virtual const Traits& traits() const noexcept = 0;
  virtual std::string where() const = 0;  // redacted URL or directory, for messages

  // Prepares to wait; the first poll asks. Errc::usage when the recipe cannot do what the request asks.
  virtual Result<std::unique_ptr<Waiter>> enqueue(const Request&) = 0;

  // A lease: asks for `ttl` more from now. Attached with no_deadline: checks that the record is still ours.
  // A lease that has ended is never revived.
  virtual Result<Renewal> renew(const Lease&, Duration ttl) = 0;

  // Lets the lock go on for `ttl` from now, longer or shorter, without this process. Errc::usage where Traits say that
  // nothing outlives the process.
  virtual Result<Renewal> detach(const Lease&, Duration ttl) = 0;

  virtual Result<Released> release(const Lease&) = 0;

  // An operator's decision: removes the holder with this token, or all of them. The fence stays. No lock-delay.
  virtual Result<Released> force_release(const Key&, std::optional<FencingToken>) = 0;

  // Valid: a grant with this token, of any owner (or of `owner` with any token), is in force now.
  virtual Result<Validity> check(const Key&, FencingToken) = 0;
  virtual Result<Validity> check(const Key&, const Owner&) = 0;

  // nullopt: the store has never heard of this key.
  virtual Result<std::optional<KeyView>> inspect(const Key&) = 0;
  virtual Result<std::vector<KeyView>> list() = 0;  // every key below the prefix, in byte order

  // Asks whoever holds the key to stop (Kept::revoked). Errc::usage where the recipe has no such word.
  virtual Result<Released> revoke(const Key&);

  // --once-per, where Traits::starts says so (else Errc::usage). The caller holds the key, so no start comes between these two.
  virtual Result<Starts> starts(const Key&);
  // Notes a start at `at` (nullopt: forgets it), if `lease` is in force; stale: it is not, and nothing was noted. The store drops the record
  // `keep` after it was written.
  virtual Result<Validity> note_start(const Lease&, std::optional<std::int64_t> at, Duration keep);

  // Is this store fit to keep locks? Only an unreachable store is an Error.
  virtual Result<std::vector<Finding>> doctor();

  virtual Counters counters() const noexcept { return {}; }

 protected:
  Error cannot(std::string_view what) const;  // Errc::usage: this recipe does not do that
};

struct Settings {
  Duration op_timeout{5'000'000};  // one exchange with the store
  Duration connect_timeout{5'000'000};
  int interrupt_fd = -1;                        // poll(2)-able; readable: every wait returns early. Not read by the backend
  std::string password{};                       // empty: the URL's, then what the service itself has (a variable, a file)
  std::string auth{};                           // ZooKeeper: scheme:credential
  std::string tls_ca{}, tls_cert{}, tls_key{};  // paths; empty: the URL items of the same names
  bool tls_insecure = false;                    // verify no certificate
};

struct BackendFactory {
  std::string_view family;
  std::span<const std::string_view> schemes;  // first is the canonical one
  std::span<const Traits> recipes;            // first is the default
  std::span<const std::string_view> items;    // URL query items besides `recipe` and `prefix`; `where.` allows every `where.NAME`
  // Checks everything in the URL that can be checked without a connection (Errc::usage) and connects no earlier than the
  // first call. `url` outlives nothing: copy what you need.
  Result<std::unique_ptr<Backend>> (*open)(const Url&, const Traits&, const Settings&);
  std::string_view note{};                       // for --version: "no TLS, no SASL"
  std::string (*warning)(const Url&) = nullptr;  // what a user of this URL should know once; empty: nothing
};

// One explicit table, in backends/table.cpp; no self-registration.
std::span<const BackendFactory> backends() noexcept;

// Families that this binary could have but was built without, with the CMake option that adds them (its bare name).
struct AbsentBackend {
  std::string_view family, option;
  std::span<const std::string_view> schemes;
};
std::span<const AbsentBackend> absent_backends() noexcept;

// The factory and recipe a URL asks for (`?recipe=`, overruled by `recipe` when not empty). Errc::usage: unknown scheme, item or recipe,
// with the list of what exists; or not built in, with how to get it.
struct Choice {
  const BackendFactory* factory;
  const Traits* traits;
};
Result<Choice> choose(const Url&, std::string_view recipe);

}  // namespace dlock
