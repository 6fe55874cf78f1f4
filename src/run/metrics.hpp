// SPDX-License-Identifier: Apache-2.0
// --metrics-file: figures about the runs of one key in the text format of Prometheus, for the
// textfile collector of node_exporter.
#pragma once
#include <string>
#include "core/error.hpp"
#include "core/key.hpp"
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
// turn, at most a quarter of a second. Errc::cannot_create: nothing was changed.
Result<void> write_metrics(const std::string& path, const Key&, const Figures&, const Outcome&);

}  // namespace dlock::run
