// SPDX-License-Identifier: Apache-2.0
// Who really holds the lock and whose job really runs, seen from outside of all parties; what must
// never happen is noticed here, at the moment when it happens.
#pragma once
#include <map>
#include <string>
#include "core/lock_state.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

class Ledger {
 public:
  explicit Ledger(World& world) : world_(world) {}

  // By the store. `ends`: by its clock, which is that of the simulation.
  void granted(FencingToken, Mode, unsigned limit, Nanos ends);
  void renewed(FencingToken, Nanos ends);
  void removed(FencingToken, std::string_view how);  // by a request, not by time

  bool knows(FencingToken token) const { return ends_.contains(token); }
  void expired(FencingToken);  // by time, where the store says when

  // Of the jobs. `excuse`: the machine slept, so that nobody could end the job in time; only the
  // token protects then.
  void started(FencingToken, const std::string& who);
  void writes(FencingToken, const std::string& who);
  // `lock_delay`: unless a request removes the grant, nobody is granted beside it for so long.
  void died(FencingToken, bool excused, Nanos lock_delay);
  void slept(FencingToken);
  // The store knows no grant any more but these, each until its end: of the others only the token
  // protects.
  void forgotten_except(const std::map<FencingToken, Nanos>& kept);

  std::uint64_t hash() const noexcept;
  // A token says when its owner came, not when its turn came: I4 holds of exclusive grants.
  bool tokens_of_coming = false;
  std::uint64_t grants = 0, jobs = 0, overlaps_excused = 0, stale_writes_refused = 0;

 private:
  struct Grant {
    Mode mode;
    unsigned limit;
    Nanos ends;
    bool job = false, excused = false;
    std::string who;
  };
  World& world_;
  std::map<FencingToken, Grant> all_;
  std::map<FencingToken, Nanos> ends_;  // of every grant
  struct Delay {
    Mode mode;
    Nanos until;
  };
  std::map<FencingToken, Delay> delays_;  // of grants without a job, not removed yet
  FencingToken newest_ = 0, written_ = 0;
};

}  // namespace dlock::simulation
