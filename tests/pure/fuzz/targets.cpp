// SPDX-License-Identifier: Apache-2.0
#include "targets.hpp"

namespace dlock::fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

}  // namespace dlock::fuzz
