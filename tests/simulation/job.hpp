// SPDX-License-Identifier: Apache-2.0
// A guard and its job, as models: they act on time while their machine is awake, as
// tests/program/kill/kill_matrix shows of the real ones, and the job writes its token to a fenced
// register.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "job/message.hpp"
#include "simulation/file_system.hpp"
#include "simulation/ledger.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

struct JobPlan {
  Nanos runs = second;
  std::optional<Nanos> ends_on_term{};  // so long after it; nothing: it ignores the signal
  Nanos lock_delay = 0;                 // of the lock that it runs under
};

class Guard {
 public:
  // `tell`: a message to dlock.
  Guard(World& world, Ledger& ledger, Machine& machine, std::string who, JobPlan plan,
        std::function<void(run::GuardEvent)> tell)
      : world_(world),
        ledger_(ledger),
        machine_(machine),
        who_(std::move(who)),
        plan_(plan),
        tell_(std::move(tell)) {}

  // `holds`: with which the lock would end, until the job is dead.
  void start(FencingToken, const run::GuardDeadlines&, std::vector<OpenPtr> holds);
  void deadlines(const run::GuardDeadlines&);
  void signal_all();
  void sweep();
  void dlock_is_gone();
  void killed();  // by dlock
  void machine_sleeps();
  void machine_woke();
  bool job_lives() const noexcept { return lives_; }
  std::uint64_t hash() const noexcept;

 private:
  Deadline now() const noexcept;
  void later(Nanos span, std::uint64_t tag, void (Guard::*what)());
  void arm();
  void check();
  void write();
  void end();  // of the job, by itself
  void dead();
  Nanos delay(Nanos most) noexcept;

  World& world_;
  Ledger& ledger_;
  Machine& machine_;
  const std::string who_;
  const JobPlan plan_;
  const std::function<void(run::GuardEvent)> tell_;
  run::GuardDeadlines when_;
  std::vector<OpenPtr> holds_;
  FencingToken token_ = 0;
  bool lives_ = false, expired_ = false, sweeping_ = false, gone_ = false, signalled_ = false;
  bool excused_ = false, ends_ = false, writes_ = false, dies_ = false;  // put off by a sleep
  int status_ = 0;
};

}  // namespace dlock::simulation
