// SPDX-License-Identifier: Apache-2.0
// Runs one target under one fault and judges the result.
#pragma once
#include <cstddef>
#include <string>
#include <vector>
#include "verdict.hpp"

namespace dlock::faults {

struct Terms {
  std::string dlock, job;  // programs
  double seconds = 8;
  std::size_t keys = 4, clients_per_key = 4;
  int job_ms = 2;
  unsigned seed = 1;
  std::string keep;  // a directory for the traces of cells that broke a promise; empty: none

  // Servers as distributions configure them, URLs without items; jobs and waits of three times the
  // ttl: one alone, and a queue of three on another key. Instead of the clients above.
  bool defaults = false;
  bool all_kinds = false;  // each recipe and mode of the store, side by side
  int ttl = 0;             // seconds; 0: the least of the store
};

// A row of the recipe; or of each kind, at defaults.
std::vector<Row> run_cell(const Recipe&, Faults, const Terms&);

}  // namespace dlock::faults
