// SPDX-License-Identifier: Apache-2.0
// The machine that a benchmark ran on.
#pragma once
#include <string>

namespace dlock::bench {

struct Host {
  std::string name, system, kernel, machine;
  std::string processor;  // its model; empty: the kernel does not report it
  long processors = 0;
};
Host this_host();

}  // namespace dlock::bench
