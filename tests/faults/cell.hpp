// SPDX-License-Identifier: Apache-2.0
// Runs one recipe under one fault and judges the result.
#pragma once
#include <cstddef>
#include <string>
#include "verdict.hpp"

namespace dlock::faults {

struct Terms {
  std::string dlock, job;  // programs
  double seconds = 8;
  std::size_t keys = 4, clients_per_key = 4;
  int job_ms = 2;
  unsigned seed = 1;
  std::string keep;  // a directory for the traces of cells that broke a promise; empty: none
};

Row run_cell(const Recipe&, Fault, const Terms&);

}  // namespace dlock::faults
