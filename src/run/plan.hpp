// SPDX-License-Identifier: Apache-2.0
// The plan of one run or acquire: what the command line asks for, checked and complete. cli/ makes
// it. After the fork of the guard it does not change, so any thread may read it.
#pragma once
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

// What dlock prints and writes about a run.
struct OutputOptions {
  bool quiet = false;     // print errors only
  bool log_json = false;  // messages as one JSON object per line
  int verbosity = 0;
  int status_fd = -1;        // JSON lines; inherited, never passed to the job
  std::string status_file;   // JSON lines; created with mode 0600; empty: none
  std::string trace;         // the file to append the history to; empty: none
  std::string metrics_file;  // the file is replaced when the run ends; empty: none
};

// The options of a run, as the command line gave them. cli/options fills them in.
struct RunOptions : JobOptions {
  std::optional<Duration> wait;  // nullopt: for ever; zero: one try
  // If this many others wait already, the lock counts as busy. Set only if Traits::fifo is true.
  std::optional<int> max_waiters;
  int conflict_status = 75;         // -E
  Duration splay{};                 // the first request is delayed by a random part of this
  std::optional<OncePer> once_per;  // set only if Traits::starts is true
  bool again = false;               // with --once-per: start even if not due, and record the start
  bool until_success = false;       // with --once-per: a command that failed does not count
};

struct Plan : RunOptions {
  // The lock. Only the Keeper calls open(), which opens a Backend for one key.
  Opener open;
  Traits traits;
  Request request;  // the Keeper sets Request::wait from one_try()
  // The keys after request.key, in the order given. dlock acquires all or none. Later one of them
  // may be lost or released while others are held.
  std::vector<Key> more_keys;
  Timing timing;
  // Without -w: how long dlock retries a store that is unreachable at the start.
  Duration connect_timeout{std::chrono::seconds{5}};

  // The job.
  std::string id;                         // a random id; nested runs read it from DLOCK_RUNS
  bool publish_id = true;                 // sets DLOCK_RUNS; false with --no-env
  bool publish_environment = true;        // sets other DLOCK_*; false with --no-env and in fence
  std::vector<InheritedGrant> inherited;  // the grants of the dlocks around this one
  // Where the locks are, for DLOCK_GRANTS. A nested dlock compares it with the place of its own
  // locks.
  std::string place;
  // run --handle: the handle of a lock that another process acquired, and will release.
  std::optional<Handle> handle;

  // Only without a job. false: dlock ends when it has passed the grant on, and the store keeps the
  // lock. true: dlock holds the lock until somebody asks for the end, or until max_hold is over.
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
