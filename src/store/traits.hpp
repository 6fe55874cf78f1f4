// SPDX-License-Identifier: Apache-2.0
// What a recipe can do, and whether it can serve a request.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
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
  Liveness liveness = Liveness::lease;
  bool fifo = false;      // grants in order of arrival
  bool shared = false;    // Mode::shared
  bool permits = false;   // Mode::permit
  bool detached = false;  // a lease can outlive the process that took it
  bool lock_delay = false;
  bool wakes = false;  // waiters sleep until it is their turn; false: they poll
  // keys are prefixed and encoded by dlock; false: the key is the name that other programs use
  bool native = false;
  std::string_view weakness{};  // one sentence for --explain, inspect and the manual
  bool starts = false;          // notes when a job was started (--once-per)
  bool revokes = false;         // has Backend::revoke
  bool keeps_last_run = false;  // records how the job ended (Backend::release)
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

}  // namespace dlock
