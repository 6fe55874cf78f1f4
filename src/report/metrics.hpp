// SPDX-License-Identifier: Apache-2.0
// --metrics-file: figures about the runs of one key in the text format of Prometheus, for the
// textfile collector of node_exporter.
#pragma once
#include <future>
#include "core/error.hpp"
#include "report/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

// Replaces the file by a rename, so that no reader sees half of it, and a full disk keeps the old
// one. Counters continue from the values in the file for this key. A concurrent call waits its
// turn, at most a quarter of a second.
class Metrics {
 public:
  explicit Metrics(const Plan& plan) : plan_(plan) {}
  ~Metrics() = delete;  // its thread may hang on the disk
  void granted(Deadline now) noexcept { granted_at_ = now; }
  // At once: the disk is a thread's of its own. A failure is left to write_end() to report.
  void job_runs();
  void run_ended(Deadline now) noexcept { ended_at_ = now; }
  // Errc::cannot_create: nothing was changed.
  Result<void> write_end(const Outcome&);

 private:
  const Plan& plan_;
  const Deadline began_at_ = Clock::now();
  Deadline granted_at_ = no_deadline, ended_at_ = no_deadline;
  std::future<void> written_;
};

}  // namespace dlock::run
