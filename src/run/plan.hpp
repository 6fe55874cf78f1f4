// SPDX-License-Identifier: Apache-2.0
// What the command line asks of run/: everything is checked before a Plan exists.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "job/job_options.hpp"
#include "run/once_per.hpp"
#include "run/timing.hpp"
#include "run/wait_end.hpp"
#include "store/factory.hpp"
#include "store/held_elsewhere.hpp"

namespace dlock::run {

struct OutputOptions {
  bool quiet = false;     // no messages but errors
  bool log_json = false;  // messages as one JSON object per line
  int verbosity = 0;
  int status_fd = -1;              // JSON lines; inherited, never passed to the job
  std::string status_file, trace;  // created 0600 / appended; empty: none
  std::string metrics_file;        // replaced at the end; empty: none
};

// What the command line says of a run, as it is: cli/options reads it, and a Plan has it.
struct RunOptions : JobOptions {
  std::optional<Duration> wait;     // nullopt: for ever; zero: one try
  std::optional<int> max_waiters;   // as many before this one: busy; only if Traits::fifo
  int conflict_status = 75;         // -E
  Duration splay{};                 // wait a random part of it before the first request
  std::optional<OncePer> once_per;  // only if Traits::starts
  bool again = false;               // --once-per: starts although it ran, and is noted
  bool until_success = false;       // --once-per: a command that failed does not count
};

struct Plan : RunOptions {
  // The lock. open: for one key; called by the keeper alone.
  std::function<Result<std::unique_ptr<Backend>>(const Settings&)> open;
  Traits traits;
  Request request;  // Request::wait: as one_try() says, when it is sent
  // Besides request.key, in the order given: taken all or none, but one may be lost, or released,
  // while others are not.
  std::vector<Key> more_keys;
  Timing timing;
  // how long an unreachable store is retried at the start without -w
  Duration connect_timeout{std::chrono::seconds{5}};

  // The job.
  std::string id;          // of this run, random: runs in the job find it by this (DLOCK_RUNS)
  bool publish_id = true;  // false: --no-env
  bool publish_environment = true;        // all other DLOCK_*; false: --no-env, fence
  std::vector<InheritedGrant> inherited;  // of the dlocks around this one
  std::string place;  // of the locks, for DLOCK_GRANTS: a nested dlock compares it with its own
  // run --handle: of another process, which acquired the lock and releases it
  std::optional<Handle> handle;

  // Without a job: the lock is not held by us at all, or until dlock is asked to end, or so long.
  bool holds_until_asked = false;
  Duration max_hold{};  // zero: no limit

  OutputOptions output;

  bool one_try() const noexcept { return wait == Duration{}; }
  bool has_job() const noexcept { return command != nullptr; }
  bool several() const noexcept { return !more_keys.empty(); }
};

inline WaitEnd::Rules wait_rules(const Plan& plan) {
  const auto keys = static_cast<Duration::rep>(plan.more_keys.size()) + 1;
  return {plan.wait, plan.connect_timeout, plan.timing.op_timeout * keys};
}

}  // namespace dlock::run
