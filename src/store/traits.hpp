// SPDX-License-Identifier: Apache-2.0
// What a recipe can do, and whether it can serve a request. Each family has a constant table of
// Traits, which the command line, Policy and the Keeper read.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/lease.hpp"
#include "core/url.hpp"

namespace dlock {

// What ends the lock if its holder dies.
enum class Liveness {
  // A descriptor: the kernel ends the lock when no process has it open any more. There is no
  // deadline and no renewal.
  process,
  // A connection: the lock ends with it, or some time after the server last received data.
  connection,
  session,  // a session of a server, which can outlive its connections
  lease,    // only time: the lease expires
};

// The features of a recipe. dlock asks the Traits what a recipe can do, and never the type of a
// Backend.
struct Traits {
  std::string_view family;  // "file", the first word of a sequencer
  std::string_view recipe;  // "lease"
  Liveness liveness = Liveness::lease;
  bool fifo = false;      // grants in order of arrival
  bool shared = false;    // serves Mode::shared
  bool permits = false;   // serves Mode::permit
  bool detached = false;  // a lease can outlive the process that took it
  bool lock_delay = false;
  bool wakes = false;  // waiters sleep until it is their turn; false: they poll
  // true: dlock adds a prefix to keys and encodes them. false: the key is the name that other
  // programs use.
  bool native = false;
  std::string_view weakness{};  // one sentence for --explain, `inspect` and the manual
  bool starts = false;          // records when a job was started (--once-per)
  bool revokes = false;         // has Backend::revoke
  bool keeps_last_run = false;  // records how the job ended (Backend::release)
  // A legacy algorithm, only for use together with programs that use it. Each use prints a warning.
  bool legacy = false;
  // Returns the part of `ttl` for which dlock can prove that it holds the lock; it depends on what
  // the URL says about the servers. If the session must also outlast the lock-delay, that part is
  // shorter. nullptr: the part is ttl - drift(ttl).
  Duration (*proven_lifetime)(Duration ttl, Duration delay, const Url&) = nullptr;
  Duration proven_of(Duration ttl, Duration delay, const Url& url) const {
    return proven_lifetime ? proven_lifetime(ttl, delay, url) : ttl - drift(ttl);
  }
};

// Returns the Traits of a recipe of dlock's own, which can do everything.
constexpr Traits native_traits(std::string_view family, std::string_view recipe,
                               std::string_view weakness, Liveness liveness = Liveness::lease) {
  return {.family = family,
          .recipe = recipe,
          .liveness = liveness,
          .fifo = true,
          .shared = true,
          .permits = true,
          .detached = true,
          .lock_delay = true,
          .wakes = true,
          .native = true,
          .weakness = weakness,
          .starts = true,
          .revokes = true,
          .keeps_last_run = true};
}

// A part of a request that the recipe does not support.
struct Refusal {
  std::string_view option;  // the option, "limit"
  std::string why;          // "recipe flock of file has no permits"
};
std::optional<Refusal> refusal(const Traits&, const Request&);
// Errc::usage: a refusal, "--limit: recipe flock of file has no permits". Every Backend::enqueue()
// calls this first.
Result<void> can_serve(const Traits&, const Request&);

}  // namespace dlock
