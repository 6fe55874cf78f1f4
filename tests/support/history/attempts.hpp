// SPDX-License-Identifier: Apache-2.0
// The events of a history, grouped by acquisition: each has a new owner.
#pragma once
#include <map>
#include <string>
#include <vector>
#include "history/event.hpp"

namespace dlock::history {

struct Attempt {
  std::string key, owner;
  const Event* invoke = nullptr;
  const Event* queued = nullptr;
  const Event* answer = nullptr;  // to the acquire: ok, fail or info; the last one
  const Event* granted = nullptr;
  const Event* started = nullptr;
  const Event* last_alive = nullptr;
  const Event* killed = nullptr;  // the first term_sent or kill_sent
  const Event* dead = nullptr;
  const Event* release = nullptr;      // the first invoke
  std::vector<const Event*> released;  // answered ok
  const Event* lost = nullptr;         // a renewal answered: no longer held
  const Event* exit = nullptr;
  const Event* last = nullptr;  // the last event
  // the grant and the renewals that moved it, in order of time
  std::vector<const Event*> deadlines;

  bool exclusive() const { return !invoke || invoke->mode.empty() || invoke->mode == "exclusive"; }
  std::uint64_t token() const { return granted && granted->token ? *granted->token : 0; }
  bool has_deadline() const { return !deadlines.empty(); }
  std::int64_t deadline_at(std::int64_t t) const;  // in force then; has_deadline() only
  std::int64_t last_deadline() const { return *deadlines.back()->deadline; }
  // When it stopped holding at the latest, as far as its own process knew.
  std::int64_t held_until() const;
};

struct Fault {
  const Event* begin = nullptr;
  const Event* end = nullptr;  // null: until the end of the history
};

struct History {
  std::map<std::string, std::vector<const Attempt*>> by_key;  // in order of the invoke
  std::vector<Attempt> attempts;
  std::vector<Fault> faults;
  std::map<std::string, std::vector<const Event*>> writes;  // by key, in order of time
  std::vector<const Event*> left;
  // answered ok, of a grant that is not in the history
  std::vector<const Event*> unmatched_releases;

  bool fault_within(std::int64_t from, std::int64_t to, bool fenced_only = false) const;
};

History gather(const std::vector<Event>&);  // the events outlive it

}  // namespace dlock::history
