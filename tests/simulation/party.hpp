// SPDX-License-Identifier: Apache-2.0
// One `dlock run` on a simulated machine: the production Policy, Keeper and recipe, and around them
// what src/run/supervisor.cpp does with real descriptors.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include "run/keeper.hpp"
#include "run/plan.hpp"
#include "run/policy.hpp"
#include "simulation/job.hpp"
#include "simulation/process.hpp"
#include "store/factory.hpp"

namespace dlock::simulation {

struct RunPlan {
  std::string url;
  const BackendFactory* factory = nullptr;  // its first recipe
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;
  Nanos ttl = 0;
  std::optional<Nanos> wait{};  // -w
  JobPlan job;
};

class Party final : public Process {
 public:
  // Throws std::invalid_argument when the plan is none that the command line would accept.
  Party(World&, Network&, Ledger&, Machine&, std::string name, std::uint64_t seed, const RunPlan&);
  ~Party() override;

  void begin();
  bool over() const noexcept { return !alive() && !guard_.job_lives(); }
  bool granted() const noexcept { return token_ != 0; }
  std::uint64_t hash() const noexcept;

 private:
  class Tracked;
  class TrackedWaiter;
  void turn() override;
  bool wants_turn() const override;
  void has_died() override { guard_.dlock_is_gone(); }
  void leave_threads() override { keeper_->post(run::action::LeaveQueue{}); }
  void machine_sleeps() override { guard_.machine_sleeps(); }
  void machine_woke() override { guard_.machine_woke(); }
  void from_guard(std::vector<run::Event>& urgent, std::vector<run::Event>& rest);
  void from_keeper(std::vector<run::Event>& out);
  void tell(const run::KeeperEvent&);
  void perform(const run::Action&);
  void signal_tree();
  void post(const run::KeeperAction&);
  void start_job();
  // The effects of the last fault are over.
  bool quiet() const { return world_.now() > world_.last_fault_over() + 3 * ttl_; }

  run::Plan plan_;
  Guard guard_;
  std::vector<run::GuardEvent> inbox_;  // from the guard
  bool guard_gone_ = false, swept_ = false;
  std::unique_ptr<run::Policy> policy_;
  // A Keeper has no destructor, because its thread may hang for ever. Here its memory is freed and
  // what it opened is destroyed.
  std::unique_ptr<std::byte[]> memory_;
  run::Keeper* keeper_ = nullptr;
  Backend* opened_ = nullptr;
  std::vector<Waiter*> places_;
  FencingToken token_ = 0;
  std::vector<Fd> holds_;  // of the grant, until the guard has them
  Nanos ttl_ = 0;
  bool steady_ = true;  // no replicas that miss a grant
};

}  // namespace dlock::simulation
