// SPDX-License-Identifier: Apache-2.0
// --metrics-file: figures about the runs of one key in the text format of Prometheus, for the
// textfile collector of node_exporter.
#pragma once
#include <future>
#include "core/error.hpp"
#include "run/outcome.hpp"
#include "run/plan.hpp"

namespace dlock::run {

struct Figures {
  double wait_seconds = 0;  // until the grant, or until the wait ended
  double held_seconds = 0;  // 0: never held
  bool granted = false;
};

// Replaces the file by a rename, so that no reader sees half of it, and a full disk keeps the old
// one. Counters continue from the values in the file for this key. A concurrent call waits its
// turn, at most a quarter of a second.
class Metrics {
 public:
  explicit Metrics(const Plan& plan) : plan_(plan) {}
  ~Metrics() = delete;  // its thread may hang on the disk
  // At once: the disk is a thread's of its own. A failure is left to run_ended() to report.
  void job_runs();
  // Errc::cannot_create: nothing was changed.
  Result<void> run_ended(const Figures&, const Outcome&);

 private:
  const Plan& plan_;
  std::future<void> written_;
};

}  // namespace dlock::run
