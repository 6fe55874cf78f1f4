// SPDX-License-Identifier: Apache-2.0
// --metrics-file: figures about the runs of one key in the text format of Prometheus, for the
// textfile collector of node_exporter. The Supervisor calls it on the main thread.
#pragma once
#include <future>
#include "core/error.hpp"
#include "report/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// Writes the file by a rename: no reader sees half a file, and a full disk leaves the old file.
// Counters continue from the values in the file for this key. A concurrent writer waits its turn
// for a quarter of a second at most.
class Metrics {
 public:
  explicit Metrics(const Plan& plan) : plan_(plan) {}
  ~Metrics() = delete;  // its thread may hang on the disk
  void granted(Deadline now) noexcept { granted_at_ = now; }
  // Returns at once, because a thread of its own writes to the disk. write_end() reports a failure.
  void job_runs();
  void run_ended(Deadline now) noexcept { ended_at_ = now; }
  // Errc::cannot_create: the file is unchanged.
  Result<void> write_end(const Outcome&);

 private:
  const Plan& plan_;
  const Deadline began_at_ = Clock::now();
  Deadline granted_at_ = no_deadline, ended_at_ = no_deadline;
  std::future<void> written_;
};

}  // namespace dlock::run
